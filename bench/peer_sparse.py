import torch,time,sys
torch.set_num_threads(int(sys.argv[1])); n=4096
for N in (16,64,256):
    d=torch.randn(n,n)*(torch.rand(n,n)<0.01); a=d.to_sparse_csr(); b=d.to_sparse(); x=torch.randn(n,N); g=torch.randn(n,N); best=[9]*4
    for k in range(15):
        t=time.perf_counter(); a@x; best[0]=min(best[0],time.perf_counter()-t)
        t=time.perf_counter(); b@x; best[1]=min(best[1],time.perf_counter()-t)
        if k<6:
            t=time.perf_counter(); d@x; best[2]=min(best[2],time.perf_counter()-t)
        p=a.detach().clone().requires_grad_(); q=x.detach().requires_grad_()
        t=time.perf_counter(); y=torch.sparse.mm(p,q); y.backward(g); best[3]=min(best[3],time.perf_counter()-t)
    print(f"torch N={N} csr {best[0]*1e3:.3f} coo {best[1]*1e3:.3f} dense {best[2]*1e3:.3f} fwd+bwd {best[3]*1e3:.3f}")
