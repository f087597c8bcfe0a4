package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/configs"
	"dispatcher/internal/version"
)

// NewRoot makes a command line of these commands. environ replaces the environment of the
// process, so that a test has one of its own.
func NewRoot(environ func() []string, commands ...func(*Settings) *cobra.Command) *cobra.Command {
	s := &Settings{configs.Source{Environ: environ}}
	root := &cobra.Command{
		Use:           "dispatcher",
		Short:         "Send jobs from Kafka to a provider, under one rate limit for the whole fleet",
		Version:       version.Text(),
		SilenceUsage:  true, // a failure is no reason to explain the flags
		SilenceErrors: true, // main prints the error, once
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.PersistentFlags().StringVarP(&s.File, "config", "c", "", "`FILE` with settings (default $DISPATCHER_CONFIG)")
	root.PersistentFlags().StringArrayVar(&s.Set, "set", nil, "one setting as `path=value`, such as limits.0.cap=300; can be repeated, and wins over all other sources")
	root.SetFlagErrorFunc(flagFault)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // few arguments are files
	if err := root.MarkPersistentFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // it is there
	}
	for _, make := range commands {
		root.AddCommand(make(s))
	}
	root.AddCommand(newCompletion())
	return root
}

// flagFault words the error of a flag for the user of the command line.
func flagFault(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kinds := map[string]string{
			"int": "a whole number", "int64": "a whole number", "float64": "a number", "duration": "a time with a unit, such as 10ms", "bool": "true or false",
		}
		if kind := kinds[wrong.GetFlag().Value.Type()]; kind != "" {
			return fmt.Errorf("%s: --%s: %s is not %s", CommandName(cmd), wrong.GetFlag().Name, wrong.GetValue(), kind)
		}
	}
	return fmt.Errorf("%s: %w", CommandName(cmd), err)
}

// CommandName is a command's name without the program's, which main puts in front.
func CommandName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// OneName requires one argument.
func OneName(what, placeholder string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("name the %s: %s %s", what, cmd.CommandPath(), placeholder)
		case len(args) > 1:
			return fmt.Errorf("%s: one %s at a time; %q is one too many", CommandName(cmd), what, args[1])
		}
		return nil
	}
}

// Group is a command that only holds others. Without this cobra would print
// help and exit 0 for a subcommand that does not exist.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, c := range commands {
				names = append(names, c.Name())
			}
			return fmt.Errorf("%s: name a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	g.AddCommand(commands...)
	return g
}
