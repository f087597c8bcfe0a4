package configs

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/sender"
)

// checker holds a YAML tree against the schema. YAML guesses types (cap: 1.5,
// timeout: 5, password: 0123); a guess that isn't the field's type is refused
// here rather than bent into shape, since 5 would become 5 ns and 0123 83.
type checker struct{ faults []error }

func (c *checker) fault(path, format string, args ...any) {
	c.faults = append(c.faults, misreadAt(path, fmt.Errorf(format, args...)))
}

// section returns what the tree holds for the fields, under lower-case keys.
func (c *checker) section(prefix string, fields []field, tree map[string]any) map[string]any {
	clean := make(map[string]any, len(tree))
	for _, key := range sortedKeys(tree) {
		f, ok := find(fields, key)
		if !ok {
			c.unknown(prefix, key, fields)
			continue
		}
		if tree[key] == nil {
			continue
		}
		if value := c.value(prefix+key, f, tree[key]); value != nil {
			clean[key] = value
		}
	}
	return clean
}

// unknown records an unknown key. If the key was probably meant to be another one,
// that one's value can't be read.
func (c *checker) unknown(prefix, key string, fields []field) {
	known := make([]string, 0, len(fields))
	for _, f := range fields {
		known = append(known, prefix+f.name)
	}
	fault := unknown("unknown key "+show(prefix+key), prefix+key, known)
	meant := nearest(prefix+key, known)
	if f, ok := find(fields, strings.TrimPrefix(meant, prefix)); ok && !f.isSection() && !f.isSections() {
		fault = misreadAt(meant, fault)
	}
	c.faults = append(c.faults, fault)
}

// value returns what is to stand for the field, or nil after a fault.
func (c *checker) value(path string, f field, raw any) any {
	switch {
	case f.isSection():
		if tree, ok := raw.(map[string]any); ok {
			return c.section(path+".", f.sub, tree)
		}
		c.wrong(path, f, raw, "a section with keys of its own")
	case f.isSections():
		return c.sections(path, f, raw)
	case f.isResults():
		return c.results(path, f, raw)
	case f.isHeaders():
		return c.headers(path, f, raw)
	case f.typ.Kind() == reflect.Slice:
		return c.list(path, f, raw)
	default:
		return c.scalar(path, f, raw)
	}
	return nil
}

func (c *checker) scalar(path string, f field, raw any) any {
	text, isText := raw.(string)
	switch {
	case f.typ == reflect.TypeFor[time.Duration]():
		if isText {
			if _, err := time.ParseDuration(text); err == nil {
				return text
			}
		}
		c.wrong(path, f, raw, "a duration with a unit, such as 200ms")
	case f.typ.Kind() == reflect.String:
		if isText {
			return text
		}
		c.wrong(path, f, raw, "text; put it in quotes")
	case f.typ.Kind() == reflect.Bool:
		if b, ok := raw.(bool); ok {
			return b
		}
		c.wrong(path, f, raw, "true or false")
	case f.typ.Kind() == reflect.Float64:
		if n, ok := raw.(float64); ok {
			return n
		}
		if n, ok := whole(raw); ok {
			return float64(n)
		}
		c.wrong(path, f, raw, "a number")
	default:
		if n, ok := whole(raw); ok {
			return n
		}
		c.wrong(path, f, raw, "a whole number")
	}
	return nil
}

func whole(raw any) (int64, bool) {
	switch n := raw.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		return int64(n & math.MaxInt64), n <= math.MaxInt64
	}
	return 0, false
}

func (c *checker) list(path string, f field, raw any) any {
	elements, ok := raw.([]any)
	if !ok {
		c.wrong(path, f, raw, "a list")
		return nil
	}
	if f.typ.Elem() == reflect.TypeFor[time.Duration]() {
		return c.durations(path, elements)
	}
	list := make([]string, 0, len(elements))
	for i, element := range elements {
		text, ok := element.(string)
		if !ok {
			c.wrong(path+"."+strconv.Itoa(i), f, element, "text; put it in quotes")
			continue
		}
		list = append(list, text)
	}
	return list
}

// durations keeps the places of the elements: one that can't be read is 0.
func (c *checker) durations(path string, elements []any) any {
	list := make([]time.Duration, len(elements))
	for i, element := range elements {
		text, _ := element.(string)
		d, err := time.ParseDuration(text)
		if list[i] = d; err != nil {
			c.wrong(path+"."+strconv.Itoa(i), field{}, element, "a duration with a unit, such as 200ms")
		}
	}
	return list
}

func (c *checker) sections(path string, f field, raw any) any {
	elements, ok := raw.([]any)
	if !ok {
		c.wrong(path, f, raw, "a list")
		return nil
	}
	list := make([]any, 0, len(elements))
	for i, element := range elements {
		at := path + "." + strconv.Itoa(i)
		tree, ok := element.(map[string]any)
		if !ok {
			c.wrong(at, f, element, "a section with keys of its own")
			continue
		}
		list = append(list, c.section(at+".", f.sub, tree))
	}
	return list
}

// results takes 404 as a number too: nobody puts a status into quotes.
func (c *checker) results(path string, f field, raw any) any {
	results := make(map[string]any)
	take := func(status, name any) {
		key := fmt.Sprint(status)
		at := path + "." + key
		text, ok := name.(string)
		if !ok {
			c.wrong(at, field{}, name, "the name of a result")
			return
		}
		results[key] = text
	}
	switch tree := raw.(type) {
	case map[string]any:
		for _, status := range sortedKeys(tree) {
			take(status, tree[status])
		}
	case map[any]any:
		for status, name := range tree {
			take(status, name)
		}
	default:
		c.wrong(path, f, raw, "a mapping of statuses to results")
		return nil
	}
	return results
}

func (c *checker) headers(path string, f field, raw any) any {
	tree, ok := raw.(map[string]any)
	if !ok {
		c.wrong(path, f, raw, "a mapping of names to text")
		return nil
	}
	headers := make(map[string]any, len(tree))
	for _, name := range sortedKeys(tree) {
		at := path + "." + name
		text, ok := tree[name].(string)
		if !ok {
			c.wrong(at, field{secret: true}, tree[name], "text; put it in quotes")
			continue
		}
		lower := strings.ToLower(name)
		if _, twice := headers[lower]; twice {
			c.fault(at, "%s: stated twice; names are case-insensitive", at)
		}
		if !sender.IsHeaderName(lower) {
			c.fault(at, "%s: is no name of a header", show(at))
			continue
		}
		headers[lower] = text
	}
	return headers
}

// wrong names the field and, where it is a plain value and no secret, the value.
func (c *checker) wrong(path string, f field, raw any, want string) {
	shown := "is something else"
	switch v := raw.(type) {
	case nil:
		shown = "is empty"
	case map[string]any, map[any]any:
		shown = "is a mapping"
	case []any:
		shown = "is a list"
	case string:
		shown = show(v)
		if mayHoldSecret(v) {
			shown = redacted
		}
	case int, int64, uint64, float64, bool:
		shown = fmt.Sprint(v)
	}
	if f.secret {
		shown = redacted
	}
	c.fault(path, "%s: %s: must be %s", path, shown, want)
}

func sortedKeys(tree map[string]any) []string {
	keys := make([]string, 0, len(tree))
	for key := range tree {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
