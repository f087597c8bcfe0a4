package expression

import (
	"math"
	"reflect"

	"dispatcher/job"
)

// MaxKeyBytes is the longest key, in bytes.
const MaxKeyBytes = 1024

// Key is a text out of a job. Several goroutines may use it. The zero value can't be used.
type Key struct{ program *program }

// CompileKey compiles an expression that gives text, a whole number or a bool. Its error is
// an [*Error]. A key that is written out is checked as [Key.Of] checks it.
func CompileKey(source string) (Key, error) {
	p, err := compile(source, "text, a whole number or a bool", reflect.String, reflect.Int, reflect.Float64, reflect.Bool)
	if err != nil {
		return Key{}, err
	}
	k := Key{p}
	if p.isConstant() {
		_, err = k.Of(new(Job))
	}
	return k, err
}

// Of is the key of a job. Its error is an [*Error].
func (k Key) Of(j *Job) (string, error) {
	value, err := k.program.run(j)
	if err != nil {
		return "", k.program.fails("%s", failure(k.program.source, err))
	}
	if value == nil {
		return "", k.program.fails(missing)
	}
	text, err := toText(value)
	switch {
	case err != nil:
		return "", k.program.fails("%s", err)
	case text == "":
		return "", k.program.fails("gives an empty key for this job; write a condition that leaves such jobs out")
	case len(text) > MaxKeyBytes:
		return "", k.program.fails("gives a key of %d bytes for this job; at most %d are supported", len(text), MaxKeyBytes)
	}
	return text, nil
}

// Condition tells jobs apart. Several goroutines may use it. The zero value can't be used.
type Condition struct{ program *program }

// CompileCondition compiles an expression that gives a bool. Its error is an [*Error].
func CompileCondition(source string) (Condition, error) {
	p, err := compile(source, "a bool, such as job.lane == \"otp\"", reflect.Bool)
	return Condition{p}, err
}

// Holds tells whether the condition is true for a job. Its error is an [*Error].
func (c Condition) Holds(j *Job) (bool, error) {
	value, err := c.program.run(j)
	if err != nil {
		return false, c.program.fails("%s", failure(c.program.source, err))
	}
	if value == nil {
		return false, c.program.fails(missing)
	}
	holds, ok := value.(bool)
	if !ok {
		return false, c.program.fails("must give true or false, and gives %s for this job; compare it with ==", kindOf(value))
	}
	return holds, nil
}

// Cost is how many units a job counts. Several goroutines may use it. The zero value can't be
// used.
type Cost struct{ program *program }

// CompileCost compiles an expression that gives a whole number. Its error is an [*Error]. A number
// that is written out is checked as [Cost.Of] checks it.
func CompileCost(source string) (Cost, error) {
	p, err := compile(source, "a whole number, such as int(job.headers[\"cost\"] ?? \"1\")", reflect.Int, reflect.Float64)
	if err != nil {
		return Cost{}, err
	}
	c := Cost{p}
	if p.isConstant() {
		_, err = c.Of(new(Job))
	}
	return c, err
}

// Of is the cost of a job, from 1 to [job.MaxCost]. Its error is an [*Error].
func (c Cost) Of(j *Job) (int64, error) {
	value, err := c.program.run(j)
	if err != nil {
		return 0, c.program.fails("%s", failure(c.program.source, err))
	}
	switch v := value.(type) {
	case nil:
		return 0, c.program.fails(missing)
	case string:
		return 0, c.program.fails("gives a text, and must give a whole number; write int(...) around it")
	case int:
		value = float64(v)
	}
	cost, isNumber := value.(float64)
	var gives string
	switch {
	case !isNumber:
		gives = kindOf(value)
	case cost < 1:
		gives = "a number below 1"
	case cost > job.MaxCost:
		gives = "a larger number"
	case cost != math.Trunc(cost):
		gives = "a number with a fraction"
	default:
		return int64(cost), nil
	}
	return 0, c.program.fails("gives %s, and must give a whole number from 1 to %d", gives, job.MaxCost)
}

// kindOf names the kind of a value.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case int, float64:
		return "a number"
	case bool:
		return "a bool"
	}
	return "a list or an object"
}
