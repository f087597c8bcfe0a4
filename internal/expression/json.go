package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of a value that is decoded.
const (
	maxJSONBytes = 1 << 20
	maxJSONDepth = 64
)

// decodeJSON decodes the value of a job. Its error holds nothing of the value.
func decodeJSON(value []byte) (any, error) {
	if len(value) > maxJSONBytes {
		return nil, &valueError{why: fmt.Sprintf("job.json is needed, and the value of the job has more than %d bytes", maxJSONBytes)}
	}
	if deeper(value, maxJSONDepth) {
		return nil, &valueError{why: fmt.Sprintf("job.json is needed, and the value of the job is nested deeper than %d levels", maxJSONDepth)}
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var tree any
	err := d.Decode(&tree)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return nil, &valueError{why: "job.json is needed, and the value of the job is not JSON"}
	}
	return withNumbers(tree), nil
}

// deeper tells whether objects and lists are nested deeper than most. It does not check
// whether the text is JSON.
func deeper(text []byte, most int) bool {
	depth, inText := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// withNumbers puts a number in the place of each [json.Number] of a tree.
func withNumbers(tree any) any {
	switch t := tree.(type) {
	case json.Number:
		return number(t.String())
	case map[string]any:
		for name, value := range t {
			t[name] = withNumbers(value)
		}
	case []any:
		for i, value := range t {
			t[i] = withNumbers(value)
		}
	}
	return tree
}

// number reads a number of JSON: a whole one is an int, and every other one a float. A number
// that neither of them holds stays text.
func number(text string) any {
	if strings.ContainsAny(text, ".eE") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
		return text
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}
