package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// newCompletion is the command that prints the script of a shell. Cobra's own exits with 0 where it does not know the shell.
func newCompletion() *cobra.Command {
	of := func(shell, use string, write func(*cobra.Command, io.Writer) error) *cobra.Command {
		return &cobra.Command{
			Use: shell, Short: "Print the script for " + shell, Args: cobra.NoArgs, Example: "  " + use,
			RunE: func(cmd *cobra.Command, _ []string) error { return write(cmd.Root(), cmd.OutOrStdout()) },
		}
	}
	g := Group("completion", "Print a script with which a shell completes commands, flags and the names of limits",
		of("bash", "source <(dispatcher completion bash)", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }),
		of("zsh", "dispatcher completion zsh >\"${fpath[1]}/_dispatcher\"", (*cobra.Command).GenZshCompletion),
		of("fish", "dispatcher completion fish | source", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }),
		of("powershell", "dispatcher completion powershell | Out-String | Invoke-Expression", (*cobra.Command).GenPowerShellCompletionWithDesc),
	)
	g.Long = "Print a script with which a shell completes commands, flags and the names of limits. The names come from Redis:\n" +
		"give -c FILE or set DISPATCHER_CONFIG, as for the command itself. None are offered while Redis does not answer."
	return g
}
