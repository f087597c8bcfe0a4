package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"dispatcher/internal/clip"
)

// The functions that stand in the place of job.headers[...] and job.json. Nobody can write
// their names.
const (
	headerFunction = "header of"
	jsonFunction   = "json of"
)

// builtins are the library's functions that an expression may call. They have no side
// effects, and what they return is not much longer than what they get.
var builtins = []string{ //nolint:gochecknoglobals // a constant table
	"len", "type", "abs", "ceil", "floor", "round", "float", "min", "max", "trim", "trimPrefix", "trimSuffix",
	"upper", "lower", "split", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix",
}

// own are the functions that this package has in the place of the library's.
var own = []string{"int", "string"} //nolint:gochecknoglobals // a constant table

const theNames = `the names are job.key, job.id, job.lane, job.topic, job.headers["name"] and job.json`

func theFunctions() string {
	return "the functions are " + strings.Join(append(slices.Clone(own), builtins...), ", ")
}

// names walks over an expression, the children of a node before the node. It refuses all that
// an expression may not hold, and puts calls in the place of job.headers[...] and job.json.
type names struct {
	jobs    []ast.Node // each use of the name job that no field followed yet
	headers []ast.Node // each job.headers that no name followed yet

	found  bool
	at     file.Location // of the first refusal
	reason string
}

func (n *names) refuse(node ast.Node, reason string, args ...any) {
	if !n.found {
		n.found, n.at, n.reason = true, node.Location(), fmt.Sprintf(reason, args...)
	}
}

// end refuses what the walk left open, and returns the first refusal.
func (n *names) end(source string) (reason string, refused bool) {
	for _, node := range n.jobs {
		n.refuse(node, "job is no value by itself; %s", theNames)
	}
	for _, node := range n.headers {
		n.refuse(node, `job.headers is no value by itself; write job.headers["name"], which is nil if there is none`)
	}
	if !n.found {
		return "", false
	}
	return place(source, n.at) + n.reason, true
}

// Visit is called for each node.
func (n *names) Visit(node *ast.Node) {
	switch t := (*node).(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode,
		*ast.UnaryNode, *ast.ChainNode, *ast.SliceNode, *ast.ConditionalNode, *ast.ArrayNode:
	case *ast.IdentifierNode:
		switch t.Value {
		case "job":
			n.jobs = append(n.jobs, t)
		case "$env":
			n.refuse(t, "$env is not supported here; %s", theNames)
		}
	case *ast.MemberNode:
		n.member(node, t)
	case *ast.BinaryNode:
		n.binary(t)
	case *ast.BuiltinNode:
		n.builtin(t)
	case *ast.CallNode:
		name, ok := t.Callee.(*ast.IdentifierNode)
		if !ok || !slices.Contains(own, name.Value) {
			n.refuse(t, "there is no such function; %s", theFunctions())
		}
	default:
		n.refuse(t, "variables, loops and objects are not supported here; %s", theFunctions())
	}
}

// builtin refuses two texts of the job in trim, whose cost would be the product of their lengths.
func (n *names) builtin(t *ast.BuiltinNode) {
	switch {
	case !slices.Contains(builtins, t.Name):
		n.refuse(t, "%s is not supported here; %s", t.Name, theFunctions())
	case t.Name == "trim" && len(t.Arguments) > 1 && !writtenOut(t.Arguments[1]):
		n.refuse(t, "the second argument of trim must be written out in quotes")
	}
}

func writtenOut(node ast.Node) bool {
	_, text := node.(*ast.StringNode)
	return text
}

func (n *names) binary(t *ast.BinaryNode) {
	switch {
	case t.Operator == "..":
		n.refuse(t, "a range is not supported here; compare with >= and <=")
	case t.Operator == "matches" && !writtenOut(t.Right):
		n.refuse(t, "the regular expression behind matches must be written out in quotes")
	}
}

// member is a step such as .key or ["name"].
func (n *names) member(node *ast.Node, t *ast.MemberNode) {
	if i := slices.Index(n.headers, t.Node); i >= 0 {
		n.headers = slices.Delete(n.headers, i, i+1)
		name := t.Property
		if text, ok := name.(*ast.StringNode); ok {
			name = &ast.StringNode{Value: strings.ToLower(text.Value)}
		}
		ast.Patch(node, call(headerFunction, name))
		return
	}
	i := slices.Index(n.jobs, t.Node)
	if i < 0 {
		return
	}
	n.jobs = slices.Delete(n.jobs, i, i+1)
	field, ok := t.Property.(*ast.StringNode)
	if !ok {
		n.refuse(t, "the field of job must be written out; %s", theNames)
		return
	}
	switch field.Value {
	case "key", "id", "lane", "topic":
	case "headers":
		n.headers = append(n.headers, t)
	case "json":
		ast.Patch(node, call(jsonFunction))
	default:
		n.refuse(t, "job has no field %s; %s", clip.Quoted(field.Value, 40), theNames)
	}
}

// call is a call with the whole environment as the first argument.
func call(function string, arguments ...ast.Node) ast.Node {
	all := append([]ast.Node{&ast.IdentifierNode{Value: "$env"}}, arguments...)
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: function}, Arguments: all}
}
