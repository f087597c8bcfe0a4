package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/configs"
)

// settings is what every subcommand can ask for: the configuration, from
// wherever the flags say.
type settings struct {
	file    string
	set     []string
	environ func() []string
}

// newRoot is the command line. environ is asked instead of the process, so that
// a test has an environment of its own.
func newRoot(environ func() []string) *cobra.Command {
	s := &settings{environ: environ}
	root := &cobra.Command{
		Use:           "dispatcher",
		Short:         "Send jobs from Kafka to a provider, under one rate limit for the whole fleet",
		Version:       version(),
		SilenceUsage:  true, // a failure is no reason to explain the flags
		SilenceErrors: true, // main prints the error, once
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.PersistentFlags().StringVarP(&s.file, "config", "c", "", "`FILE` with settings (default $DISPATCHER_CONFIG)")
	root.PersistentFlags().StringArrayVar(&s.set, "set", nil, "one setting as `path=value`, such as limits.0.cap=300; can be repeated")
	root.SetFlagErrorFunc(flagFault)
	root.AddCommand(newRunCommand(s), newDemoCommand(), newConfigCommand(s), newEnqueueCommand(s), newLimitCommand(s), newDLQCommand(s))
	return root
}

// flagFault says what is wrong with a flag in words of the command line.
func flagFault(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kinds := map[string]string{
			"int": "a whole number", "int64": "a whole number", "float64": "a number", "duration": "a time with a unit, such as 10ms", "bool": "true or false",
		}
		if kind := kinds[wrong.GetFlag().Value.Type()]; kind != "" {
			return fmt.Errorf("%s: --%s: %s is not %s", command(cmd), wrong.GetFlag().Name, wrong.GetValue(), kind)
		}
	}
	return fmt.Errorf("%s: %w", command(cmd), err)
}

// command is a command's name without the program's, which main puts in front.
func command(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// oneName is for commands about one thing.
func oneName(what, placeholder string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("name the %s: %s %s", what, cmd.CommandPath(), placeholder)
		case len(args) > 1:
			return fmt.Errorf("%s: one %s at a time; %q is too much", command(cmd), what, args[1])
		}
		return nil
	}
}

// group is a command that only holds others. Without this cobra would print
// help and exit 0 for a subcommand that does not exist.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, c := range commands {
				names = append(names, c.Name())
			}
			return fmt.Errorf("%s: say which: %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	g.AddCommand(commands...)
	return g
}

// purpose is what a command is going to do with the configuration.
type purpose int

const (
	toSend   purpose = iota
	toManage         // without the provider, whose secrets are not asked for then
	toShow           // without any secret
)

// source is where the settings come from.
func (s *settings) source(p purpose) configs.Source {
	file := s.file
	if file == "" {
		for _, entry := range s.environ() {
			if value, ok := strings.CutPrefix(entry, "DISPATCHER_CONFIG="); ok {
				file = value
			}
		}
	}
	return configs.Source{File: file, Set: s.set, Environ: s.environ, CallsNobody: p == toManage, OnlyShown: p == toShow}
}

// read reads the settings for those that only show them.
func (s *settings) read(p purpose) (configs.Config, error) { return configs.Load(s.source(p)) }

// load reads the settings for those that are going to work with them. What a node
// refuses beyond that, node says; nil: it is not asked.
func (s *settings) load(p purpose, node func(configs.Config) error) (configs.Config, error) {
	cfg, err := configs.Check(s.source(p), node)
	if err != nil {
		return configs.Config{}, fmt.Errorf("config:\n%w", err)
	}
	return cfg, nil
}

// version is the module's, or what is known of the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "devel"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(text, setting.Value[:min(12, len(setting.Value))]) {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}
