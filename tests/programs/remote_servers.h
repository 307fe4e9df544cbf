/* remote_servers.h -- servers that tests of the remote cache start on loopback ports of
 * their own and stop by process id: Redis, and one that answers with lies. */
#ifndef TD_REMOTE_SERVERS_H
#define TD_REMOTE_SERVERS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int   server_port;
static pid_t server_pid;

static inline void stop(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A socket that listens on a free loopback port. */
static inline int listen_anywhere(int *port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          n = sizeof a;
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 16) != 0)
        return -1;
    getsockname(fd, (struct sockaddr *)&a, &n);
    *port = ntohs(a.sin_port);
    return fd;
}

/* A port on which nothing listens now. */
static inline int free_port(void) {
    int port = 0, fd = listen_anywhere(&port);
    if (fd >= 0) close(fd);
    return port;
}

/* ---- Redis ----------------------------------------------------------------- */

/* Debian's redis-tools has the server under another name, without a service. */
static inline void exec_redis(const char *dir, int port) {
    static const char *const paths[] = {"/usr/bin/redis-server",
                                        "/usr/local/bin/redis-server",
                                        "/usr/bin/redis-check-rdb"};
    char                     text[16];
    snprintf(text, sizeof text, "%d", port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (chdir(dir) != 0 || !freopen("redis.log", "w", stdout)) _exit(1);
    for (int i = 0; i < 3; i++)
        execl(paths[i], "redis-server", "--port", text, "--bind", "127.0.0.1", "--save",
              "", "--appendonly", "no", (char *)NULL);
    _exit(127);
}

/* Does the server accept connections? Waits up to ten seconds for it. */
static inline bool is_up(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500; i++) {
        int  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool ok = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
        close(fd);
        if (ok) return true;
        if (waitpid(server_pid, NULL, WNOHANG) == server_pid) return false;
        usleep(20000);
    }
    return false;
}

/* NULL, or why there is no server to test with. */
static inline const char *start_redis(const char *dir) {
#ifndef TD_HAVE_HIREDIS
    (void)dir;
    return "this build has no Redis client (libhiredis-dev)";
#else
    server_port = free_port();
    fflush(stdout);
    server_pid = fork();
    if (server_pid == 0) exec_redis(dir, server_port);
    return is_up(server_port) ? NULL : "redis-server did not start (redis-tools)";
#endif
}

/* ---- lies ------------------------------------------------------------------ */

typedef struct lie {
    const char *name, *bytes;
    bool        endless; /* the bytes are repeated */
    bool        slow;    /* ...one every 20 ms */
    bool        hangs;   /* the connection stays open after them */
    bool        answers; /* each request is answered with them */
} lie;

static const lie lies[] = {
    {"closes at once", "", false, false, false, false},
    {"never answers", "", false, false, true, false},
    {"a status", "+OK\r\n", false, false, true, false},
    {"a number", ":1\r\n", false, false, true, false},
    {"an error", "-LOADING the dataset\r\n", false, false, true, false},
    {"a large array", "*1000000000\r\n", false, false, true, false},
    {"an array of a negative size", "*-7\r\n", false, false, true, false},
    {"arrays of arrays", "*1\r\n", true, false, true, false},
    {"an array of values", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", false, false, true, false},
    {"a value of a negative size", "$-5\r\n", false, false, true, false},
    {"a value of a huge size", "$9223372036854775807\r\nabc", false, false, true,
     false},
    {"a size that is no number", "$12x\r\nabc\r\n", false, false, true, false},
    {"half a value", "$100\r\nabc", false, false, true, false},
    {"a value without its end", "$3\r\nabcdefgh", false, false, false, false},
    {"an empty value", "$0\r\n\r\n", false, false, true, false},
    {"a status without end", "+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true,
     false, true, false},
    {"a value without end", "$999999999\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, false,
     true, false},
    {"a slow value", "$100\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, true,
     true, false},
    {"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", false, false, false, false},
    {"noise", "\xff\xfe\x01\x02\x80\x7f%2\r\n#t\r\n", false, false, true, false},
    {"a slow no", "$-1\r\n", false, true, false, true},
    {"many answers", "$-1\r\n$-1\r\n$-1\r\n$-1\r\n", true, false, true, false},
};
enum { lie_count = (int)(sizeof lies / sizeof *lies) };

static int *served; /* connections of the present liar, shared with it */

static inline int connections(void) { return *served; }

/* Receives one request and answers it. False: the client is gone. */
static inline bool tell(int fd, const lie *l) {
    char   request[65536];
    size_t n = strlen(l->bytes);
    if (recv(fd, request, sizeof request, 0) <= 0) return false;
    for (bool go = n > 0; go; go = go && l->endless)
        for (size_t i = 0; i < n && go; i += l->slow ? 1 : n) {
            go = send(fd, l->bytes + i, l->slow ? 1 : n, MSG_NOSIGNAL) > 0;
            if (l->slow) usleep(20000);
        }
    while (l->hangs && recv(fd, request, sizeof request, 0) > 0) continue;
    return l->answers;
}

/* Starts a server that tells lie i; url gets its address. */
static inline pid_t start_liar(int i, char *url, size_t cap) {
    int port = 0, fd = listen_anywhere(&port);
    if (!served)
        served = mmap(NULL, sizeof *served, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *served = 0;
    snprintf(url, cap, "redis://127.0.0.1:%d", port);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int one; (one = accept(fd, NULL, NULL)) >= 0; close(one)) {
            ++*served;
            while (tell(one, &lies[i])) continue;
        }
        _exit(0);
    }
    close(fd);
    return pid;
}

#endif
