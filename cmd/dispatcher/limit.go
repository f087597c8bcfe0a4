package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/internal/dispatch"
	"dispatcher/throttle"
)

// limitTimeout bounds a command: an operator who changes a rate wants to know
// soon that it didn't work.
const limitTimeout = 5 * time.Second

func newLimitCommand(s *settings) *cobra.Command {
	var asJSON bool
	g := group("limit", "Show or change a limit of the running fleet",
		newLimitActionCommand(s, &asJSON, "get", "Show the limit in force, and where the file says otherwise",
			func(ctx context.Context, c *throttle.Control) (throttle.Settings, error) { return c.Get(ctx) }),
		newLimitSetCommand(s, &asJSON),
		newLimitActionCommand(s, &asJSON, "pause", "Stop all calls under the limit",
			func(ctx context.Context, c *throttle.Control) (throttle.Settings, error) {
				return c.Set(ctx, throttle.Change{Paused: new(true), By: operator()})
			}),
		newLimitActionCommand(s, &asJSON, "resume", "End a pause",
			func(ctx context.Context, c *throttle.Control) (throttle.Settings, error) {
				return c.Set(ctx, throttle.Change{Paused: new(false), By: operator()})
			}),
	)
	g.Long = "Show or change a limit of the running fleet. It lives in Redis: a change acts on every node\n" +
		"within half a second and outlasts restarts. The file only seeds a limit that Redis does not know."
	g.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	return g
}

// limitAction reads or changes a limit and returns what is in force after it.
type limitAction func(context.Context, *throttle.Control) (throttle.Settings, error)

func newLimitActionCommand(s *settings, asJSON *bool, verb, about string, do limitAction) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: about, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.limit(cmd, args[0], *asJSON, do)
		},
	}
}

func newLimitSetCommand(s *settings, asJSON *bool) *cobra.Command {
	var (
		units, burst                     int64
		window, guard, lateness, horizon time.Duration
	)
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change the limit", Args: cobra.ExactArgs(1),
		Example: "  dispatcher limit set provider --cap 300 --window 1s",
	}
	flags := cmd.Flags()
	flags.Int64Var(&units, "cap", 0, "`calls` the provider allows in any window")
	flags.DurationVar(&window, "window", 0, "the provider's window, such as 1s or 1m")
	flags.Int64Var(&burst, "burst", 0, "`calls` that may go at once after a pause")
	flags.DurationVar(&guard, "guard", 0, "by how much the calls' times may differ on their way, lateness included")
	flags.DurationVar(&lateness, "lateness", 0, "how late a call may start")
	flags.DurationVar(&horizon, "horizon", 0, "how far ahead slots are booked")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change := throttle.Change{By: operator()}
		given := 0
		for name, use := range map[string]func(){
			"cap": func() { change.Cap = &units }, "window": func() { change.Window = &window }, "burst": func() { change.Burst = &burst },
			"guard": func() { change.Guard = &guard }, "lateness": func() { change.Lateness = &lateness },
			"horizon": func() { change.Horizon = &horizon },
		} {
			if flags.Changed(name) {
				use()
				given++
			}
		}
		if given == 0 {
			return errors.New("limit set: nothing to change: give --cap, --window or --burst")
		}
		return s.limit(cmd, args[0], *asJSON, func(ctx context.Context, c *throttle.Control) (throttle.Settings, error) {
			return c.Set(ctx, change)
		})
	}
	return cmd
}

func (s *settings) limit(cmd *cobra.Command, name string, asJSON bool, do limitAction) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	rdb, err := dispatch.RedisClient(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
	control, err := throttle.NewControl(rdb, cfg.Redis.Namespace, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
	defer cancel()
	now, err := do(ctx, control)
	if err != nil {
		return err
	}
	report := newLimitState(cfg, name, now)
	if asJSON {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return report.print(cmd.OutOrStdout(), now)
}

// operator names who makes a change, for the people who will wonder.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// limitState is a limit as it is in force, and how the file differs from it.
type limitState struct {
	Name      string       `json:"name"`
	Namespace string       `json:"namespace"`
	Cap       int64        `json:"cap"`
	WindowS   float64      `json:"window_s"`
	Burst     int64        `json:"burst"`
	GuardS    float64      `json:"guard_s"`
	LatenessS float64      `json:"lateness_s"`
	HorizonS  float64      `json:"horizon_s"`
	Share     float64      `json:"share"`
	Paused    bool         `json:"paused"`
	Revision  int64        `json:"revision"`
	Changed   string       `json:"changed,omitempty"`
	By        string       `json:"by,omitempty"`
	InFile    bool         `json:"in_file"`
	Differs   []difference `json:"differs"`
}

// difference is one setting of which the file and Redis say different things.
type difference struct {
	Field string `json:"field"`
	File  string `json:"file"`
	Redis string `json:"redis"`
}

func newLimitState(cfg configs.Config, name string, now throttle.Settings) limitState {
	state := limitState{
		Name: name, Namespace: cfg.Redis.Namespace,
		Cap: now.Cap, WindowS: now.Window.Seconds(), Burst: now.Burst,
		GuardS: now.Guard.Seconds(), LatenessS: now.Lateness.Seconds(), HorizonS: now.Horizon.Seconds(),
		Share: now.Share(), Paused: now.Paused, Revision: now.Revision, By: now.By, Differs: []difference{},
	}
	if !now.Changed.IsZero() {
		state.Changed = now.Changed.UTC().Format(time.RFC3339)
	}
	for _, l := range cfg.Limits {
		if l.Name == name {
			state.InFile = true
			state.Differs = differences(l.Contract(), now.Contract)
		}
	}
	return state
}

func differences(file, redis throttle.Contract) []difference {
	found := []difference{}
	for _, d := range []difference{
		{"cap", fmt.Sprint(file.Cap), fmt.Sprint(redis.Cap)},
		{"window", short(file.Window), short(redis.Window)},
		{"burst", fmt.Sprint(file.Burst), fmt.Sprint(redis.Burst)},
		{"guard", short(file.Guard), short(redis.Guard)},
		{"lateness", short(file.Lateness), short(redis.Lateness)},
		{"horizon", short(file.Horizon), short(redis.Horizon)},
	} {
		if d.File != d.Redis {
			found = append(found, d)
		}
	}
	return found
}

func (s limitState) print(w io.Writer, now throttle.Settings) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	paused := ""
	if s.Paused {
		paused = ", paused"
	}
	_, _ = fmt.Fprintf(table, "limit %s: at most %d in any %s, burst %d%s\n", s.Name, s.Cap, short(now.Window), s.Burst, paused)
	_, _ = fmt.Fprintf(table, "  usable share\t%.3f\tof the cap: %.1f calls a window\n", s.Share, now.Share()*float64(now.Cap))
	_, _ = fmt.Fprintf(table, "  in force\t≤ %s\tafter a change, on every node\n", now.Reaction())
	if s.Changed == "" {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tseeded from a file\n", s.Revision)
	} else {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tof %s by %s\n", s.Revision, s.Changed, s.By)
	}
	for _, d := range s.Differs {
		_, _ = fmt.Fprintf(table, "  %s\t%s\tbut %s in this configuration, which only seeds\n", d.Field, d.Redis, d.File)
	}
	if !s.InFile {
		_, _ = fmt.Fprintln(table, "  this configuration states no limit of this name")
	}
	return table.Flush()
}
