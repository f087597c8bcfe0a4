package limitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// value are the flags that name one value of a limit's key.
type value struct{ key, hash string }

func (v *value) flags(f *pflag.FlagSet) {
	f.StringVar(&v.key, "key", "", "one `value` of the limit's key")
	f.StringVar(&v.hash, "hash", "", "the same by its `hash`, as limit get shows it")
}

// of is the value that the flags name; nil: none.
func (v *value) of(f *pflag.FlagSet) (*limit.Hash, error) {
	var faults fault.List
	faults.Refuse(f.Changed("key") && f.Changed("hash"), "hash", v.hash, "names the same as --key: leave one of them out")
	faults.Refuse(f.Changed("key") && v.key == "", "key", v.key, "must not be empty: no job has an empty key")
	if err := faults.Err(); err != nil {
		return nil, err
	}
	switch {
	case f.Changed("key"):
		hash := limit.HashOf(v.key)
		return &hash, nil
	case f.Changed("hash"):
		hash, err := limit.ParseHash(v.hash)
		return &hash, err
	}
	return nil, nil //nolint:nilnil // none is named
}

// hasKey refuses a value of a limit that the configuration states without a key.
func hasKey(cfg configs.Config, name string) error {
	var faults fault.List
	_, stated := cfg.Stated(name)
	faults.Refuse(stated && limits.CountsOf(cfg, name).Key == "", "key", fault.Phrase("given"), "is for a limit with a key: %s counts all jobs together", name)
	return faults.Err()
}

func newUnsetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	cmd := &cobra.Command{
		Use: "unset NAME", Short: "Take away the cap that one value of the limit's key has of its own", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		Example: "  dispatcher limit unset recipient --key +46701234567",
	}
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	h.value.flags(cmd.Flags())
	if err := cmd.Flags().MarkHidden("for"); err != nil {
		panic(err) // it is there
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		of, err := h.value.of(cmd.Flags())
		switch {
		case err != nil:
			return flagged(err)
		case of == nil:
			return errors.New("limit unset: name the value: give --key or --hash; nothing was changed")
		case cmd.Flags().Changed("for"):
			return errors.New("limit unset: --for is for limit set: state the cap that holds for a time; nothing was changed")
		}
		return change(s, cmd, args[0], *asJSON, h, except(*of, 0))
	}
	return cmd
}

// except gives a value a cap of its own; 0: takes it away.
func except(of limit.Hash, units int64) changeFunc {
	return func(c *control.Control, ctx context.Context, ch control.Change) (limit.Settings, error) {
		s, err := c.Except(ctx, of, units, ch)
		if units == 0 && errors.Is(err, control.ErrUnchanged) {
			err = fmt.Errorf("this value has no cap of its own: %w", err)
		}
		return s, err
	}
}

// printValue shows what holds for one value.
func printValue(table io.Writer, v limits.Value, now limit.Settings) {
	why := "as every value"
	if v.Exception {
		why = fmt.Sprintf("a cap of its own; every other value has %d", now.Cap)
		if v.Until != "" {
			why = fmt.Sprintf("a cap of its own until %s, then %d as every value", v.Until, now.Cap)
		}
	}
	_, _ = fmt.Fprintf(table, "  this value\t%d\t%s\n", v.Cap, why)
	if v.NextInS != nil {
		_, _ = fmt.Fprintf(table, "  next unit\t%s\tas far as this limit goes\n", within(*v.NextInS))
	}
	if v.BlockedUntil != "" {
		_, _ = fmt.Fprintf(table, "  blocked until\t%s\tas the provider asked; limit release ends it\n", v.BlockedUntil)
	}
}

func within(seconds float64) string {
	if seconds == 0 {
		return "now"
	}
	return "in " + time.Duration(seconds*float64(time.Second)).Round(time.Millisecond).String()
}

// printExceptions lists the values that have a cap of their own.
func printExceptions(table io.Writer, e limit.Exceptions) {
	for _, one := range limits.ExceptionsOf(e) {
		until := ""
		if one.Until != "" {
			until = " until " + one.Until
		}
		_, _ = fmt.Fprintf(table, "  exception\t%d\tfor the value with the hash %s%s\n", one.Cap, one.Hash, until)
	}
}
