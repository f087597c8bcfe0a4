package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

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
	root.AddCommand(newRunCommand(s), newDemoCommand(), newConfigCommand(s), newEnqueueCommand(s), newLimitCommand(s), newDLQCommand(s))
	return root
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
	return configs.Source{File: file, Set: s.set, Environ: s.environ, CallsNobody: p == toManage}
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
