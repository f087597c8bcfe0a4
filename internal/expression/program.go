package expression

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// Bounds of an expression, and of its run.
const (
	maxSource = 1024 // bytes
	maxNodes  = 128
	maxMemory = 1 << 14 // values in lists that an expression makes
)

// program is a compiled expression. Several goroutines may run it.
type program struct {
	source   string
	code     *vm.Program
	machines sync.Pool // of *vm.VM
}

// compile refuses what can't give a value of one of the kinds. want names the value.
func compile(source, want string, kinds ...reflect.Kind) (*program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, &Error{source, "is empty; write " + want}
	}
	if len(source) > maxSource {
		return nil, &Error{source, fmt.Sprintf("has %d bytes; at most %d are supported", len(source), maxSource)}
	}
	var n names
	code, err := expr.Compile(source, append(functions(), expr.Env(&env{}), expr.Patch(&n), expr.MaxNodes(maxNodes))...)
	if reason, refused := n.end(source); refused {
		return nil, &Error{source, reason}
	}
	if err != nil {
		return nil, &Error{source, refusal(source, err)}
	}
	p := &program{source: source, code: code}
	if t := code.Node().Type(); t == nil || !slices.Contains(append(kinds, reflect.Interface), t.Kind()) {
		return nil, p.fails("can never be %s", want)
	}
	return p, nil
}

// functions are the calls that this package answers.
func functions() []expr.Option {
	return []expr.Option{
		expr.Function(headerFunction, func(params ...any) (any, error) {
			name, ok := params[1].(string)
			if !ok {
				return nil, &valueError{why: "the name of the header is no text"}
			}
			return params[0].(*env).Job.header(strings.ToLower(name)), nil
		}, new(func(any, any) any)),
		expr.Function(jsonFunction, func(params ...any) (any, error) {
			return params[0].(*env).Job.decode()
		}, new(func(any) any)),
		expr.Function("int", func(params ...any) (any, error) { return toInt(params[0]) }, new(func(any) int)),
		expr.Function("string", func(params ...any) (any, error) { return toText(params[0]) }, new(func(any) string)),
	}
}

// isConstant reports whether the expression is a value that is written out.
func (p *program) isConstant() bool {
	switch p.code.Node().(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.BoolNode, *ast.ConstantNode:
		return true
	}
	return false
}

// run returns an [*Error] if the program fails on the job.
func (p *program) run(j *Job) (any, error) {
	machine, ok := p.machines.Get().(*vm.VM)
	if !ok {
		machine = &vm.VM{MemoryBudget: maxMemory}
	}
	value, err := machine.Run(p.code, &j.env)
	clear(machine.Stack[:cap(machine.Stack)]) // keeps no job alive
	p.machines.Put(machine)
	return value, err
}

func (p *program) fails(reason string, args ...any) error {
	return &Error{p.source, fmt.Sprintf(reason, args...)}
}

// missing is what an operator reads if an expression gives nil.
const missing = "gives nothing for this job: the header or the field is missing; write ?? for a default"

// toInt is the function int.
func toInt(value any) (int, error) {
	switch v := value.(type) {
	case nil:
		return 0, &valueError{why: "int of a value that is missing in the job; write ?? for a default"}
	case int:
		return v, nil
	case float64:
		if f := math.Trunc(v); math.Abs(f) <= wholeFloats {
			return int(f), nil
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, &valueError{why: "int of a value that is no whole number: " + kindOf(value)}
}

// wholeFloats is the bound below which a float holds every whole number.
const wholeFloats = 1 << 53

// toText is the function string, and the text of a key.
func toText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", &valueError{why: "string of a value that is missing in the job; write ?? for a default"}
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= wholeFloats {
			return strconv.FormatInt(int64(v), 10), nil
		}
		return "", &valueError{why: "is a number with a fraction, or one that is too large to be exact; it must be text, a whole number or a bool"}
	}
	return "", &valueError{why: "is neither text, a whole number nor a bool"}
}
