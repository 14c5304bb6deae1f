package measure

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/study/micro"
)

func stackCommand(a *app.App) *cobra.Command {
	f := new(sweepFlags)
	cmd := &cobra.Command{
		Use: "stack", Short: "Show what each layer adds, from the medium to a mesh",
		Args: app.NoArgs,
		Long: `stack measures the layers of a transport in one go: the round trip of a cache line, the
bare medium (memory, socket or device), the library or the ring under it, the transport
without the runtime, client-server, mesh-direct and mesh-proxied. It prints the time of a
call and what each layer adds, one call at a time and pipelined, and report draws it.
All is interleaved, so that a drift of the machine adds no layer. The sums compare a call
with its parts, which are measured apart: what they leave unexplained is said.

A mesh needs a processor for each of four threads. With fewer, threads wait for each
other, and the layers of the meshes measure the scheduler.

` + app.ExitHelp,
		Example: `  transportbench stack --transport shm
  transportbench stack --transport erpc,tcpx --repeats 12 --out results/local/stack`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openSweep(a, cmd, timed(a, "stack-"))
			if err != nil {
				return err
			}
			return s.stack(cmd, f)
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "stack-TIME"))
	complete.Flags(cmd)
	return cmd
}

func (s *session) stack(cmd *cobra.Command, f *sweepFlags) error {
	defer func() { s.leave() }()
	r, err := s.planSweep(cmd, f, []string{"stack"})
	if err != nil {
		return err
	}
	if f.dryRun {
		terminal.Print(s.Stdout, listing.Plan(r.Plan, s.engine.Beside))
		return nil
	}
	r.Dir = filepath.Join(s.settings.Out, runsDir)
	parts := func() error { return micro.StoreLayers(cmd.Context(), s.engine, r.Plan) }
	return s.sweepAll(cmd.Context(), r, parts,
		func(*experiment.Outcome) error { return s.showStacks() })
}

// showStacks writes the stacks of what was measured.
func (s *session) showStacks() error {
	all, err := consistency.ReadSet(s.settings.Out)
	if err != nil {
		return err
	}
	stacks := analyze.StacksOf(all)
	if s.settings.JSON {
		s.Warn(s.Stderr, tables.Warnings(all))
		return app.WriteJSON(s.Stdout, map[string]any{"kind": "stacks", "stacks": stacks})
	}
	terminal.Print(s.Stdout, tables.Oversubscribed(all))
	terminal.Print(s.Stdout, findings.Stacks(stacks))
	s.Warn(s.Stdout, tables.Warnings(all))
	fmt.Fprintf(s.Stdout, "\nresults in %s; %s report %[1]s draws them\n", s.settings.Out,
		s.Program)
	return nil
}
