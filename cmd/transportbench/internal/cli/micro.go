package cli

import (
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// microDuration is that of a measurement unless told otherwise.
const microDuration = "200ms"

func (a *app) microCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "micro NAME [MEASUREMENT...]", Short: "Measure a transport's medium piece by piece",
		Long: `micro has a transport measure what it is built on, without itself: the operations
of an RDMA device, for instance. Without names of measurements it takes all. It is
no run: there is neither load nor result file.`,
		ValidArgsFunction: a.completeTransports,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("micro takes the name of a transport; plugins list has them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd, map[string]string{"duration": microDuration}, nil)
			if err != nil {
				return err
			}
			e, err := a.findArgument(cmd.Context(), s.PluginDir, args[0])
			if err != nil {
				return err
			}
			var list []transport.Measurement
			request := plugin.MicroRequest{Options: s.Set, Names: args[1:], Duration: time.Duration(s.Config.Duration)}
			err = e.Micro(cmd.Context(), request, func(m transport.Measurement) error {
				list = append(list, m)
				return nil
			})
			if err != nil {
				return err
			}
			if s.JSON {
				return writeJSON(a.stdout, list)
			}
			present.Measurements(a.stdout, list)
			return nil
		},
	}
	options.AddMicro(cmd.Flags(), microDuration)
	return cmd
}
