# every kind of argument
# run: json
func @f(%x: f32[s0,3]{1,4}+2 grad @0 <param "w">, %y: f32[2] @0, %n: float) {
  %c = tensor([1.0, inf], f32)
  no_grad {
    %a = mul(%x, %n)
  }
  %v = view(%a, [s0*3])
  %i = index(%y, [none, %c])
  %e = einsum("i,i", [%c, %c])
  %d = to(%e, f64)
  add_(%d, 1)
  add_(%d, 1.0)
  return %v <update 0>, %i, %d, 3, true, none, s0
}
---
{"name":"f",
 "inputs":[
  {"name":"x","type":"tensor","dtype":"f32","sizes":["s0",3],"strides":[1,4],"offset":2,"requires_grad":true,"storage":0,"is":"param","called":"w"},
  {"name":"y","type":"tensor","dtype":"f32","sizes":[2],"strides":[1],"offset":0,"requires_grad":false,"storage":0},
  {"name":"n","type":"float"},
  {"name":"c","type":"tensor","dtype":"f32","sizes":[2],"strides":[1],"offset":0,"requires_grad":false,"is":"const","of":0,"elements":[1.0, "inf"]}],
 "nodes":[
  {"enter":"no_grad"},
  {"op":"mul","args":[{"value":"x"},{"value":"n"}],"results":[{"name":"a"}],"file":"json.td","line":6},
  {"leave":true},
  {"op":"view","args":[{"value":"a"},["s0*3"]],"results":[{"name":"v"}],"file":"json.td","line":8},
  {"op":"index","args":[{"value":"y"},[null,{"value":"c"}]],"results":[{"name":"i"}],"file":"json.td","line":9},
  {"op":"einsum","args":["i,i",[{"value":"c"},{"value":"c"}]],"results":[{"name":"e"}],"file":"json.td","line":10},
  {"op":"to","args":[{"value":"e"},{"dtype":"f64"}],"results":[{"name":"d"}],"file":"json.td","line":11},
  {"op":"add_","args":[{"value":"d"},1],"results":[{"name":"9"}],"file":"json.td","line":12},
  {"op":"add_","args":[{"value":"d"},{"float":1.0}],"results":[{"name":"10"}],"file":"json.td","line":13}],
 "outputs":[
  {"arg":{"value":"v"},"is":"update","of":0},
  {"arg":{"value":"i"}},
  {"arg":{"value":"d"}},
  {"arg":3},
  {"arg":true},
  {"arg":null},
  {"arg":{"size":"s0"}}]}
