package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// LimitFlags adds a flag for each setting of a limit that a change may have.
func LimitFlags(cmd *cobra.Command) {
	for _, p := range parameters.All {
		if p.Kind == parameters.Term || p.Kind == parameters.Guardrail {
			cmd.Flags().String(flagOf(p.Name), "", p.About)
		}
	}
	var algorithms []string
	for _, a := range limit.Algorithms() {
		algorithms = append(algorithms, a.Name)
	}
	Choices(cmd, "algorithm", algorithms...)
	Choices(cmd, "guard", parameters.Auto)
	Choices(cmd, "ignore-throttled", "true", "false")
}

// LimitValues are the settings for which [LimitFlags] are on the command line.
func LimitValues(cmd *cobra.Command) parameters.Values {
	values := parameters.Values{}
	for _, p := range parameters.All {
		if flag := cmd.Flags().Lookup(flagOf(p.Name)); flag != nil && flag.Changed {
			values[p.Name] = flag.Value.String()
		}
	}
	return values
}

// Flagged names the flag of a refused value, and adds a note. It returns other errors as they are.
func Flagged(err error, note string) error {
	field, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w (--%s)%s", err, flagOf(field.Field), note)
}

// Filled refuses flags that are given with an empty value: a shell puts it in the place of a variable that is not set.
func Filled(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := flags.Lookup(name)
		if text := f.Value.String(); f.Changed && (text == "" || text == "[]") { // "[]": an empty list
			return fault.New("--"+name, "", "must not be empty; leave the flag out if you don't mean to choose")
		}
	}
	return nil
}

// flagOf is the flag of a setting.
func flagOf(name string) string { return strings.ReplaceAll(name, "_", "-") }
