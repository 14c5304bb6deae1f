package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sweep"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/consistency"
)

// stackSweep is the name of the built-in sweep that stack runs.
const stackSweep = "stack"

// The microbenchmarks of a stack, of the transport that has them.
const (
	stackMicroTransport = "shm"
	stackMicro          = "spsc"
	stackMicroTime      = 30 * time.Millisecond
	stackMicroRepeats   = 6
)

func (a *app) stackCommand() *cobra.Command {
	f, s := new(sweepFlags), &session{app: a, bare: true}
	cmd := &cobra.Command{
		Use: "stack", Short: "Show what each layer adds, from the medium to a mesh", Args: noArgs,
		Long: `stack measures the layers of a transport in one go: the bounce of a cache line, the bare
medium (memory, socket or device), the library or the ring under it, the transport
without the harness, client-server, mesh-direct and mesh-proxied. It prints the time of a
call and what each layer adds, one call at a time and pipelined, and report draws it.
All is interleaved, so that a drift of the machine adds no layer. The sums compare a call
with its parts, which are measured apart: what they leave unexplained is said.

A mesh needs a processor for each of four threads. With fewer, threads wait for each
other, and the layers of the meshes are those of the scheduler.

` + exitHelp,
		Example: `  transportbench stack --transport shm
  transportbench stack --transport erpc,tcpx --repeats 12 --out results/local/stack`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.settings, err = a.settings(cmd, options.WithoutRun(cmd.Flags()), nil, nil); err != nil {
				return err
			}
			return s.stack(cmd, f)
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "stack-TIME"))
	a.addCompletion(cmd)
	return cmd
}

func (s *session) stack(cmd *cobra.Command, f *sweepFlags) error {
	spec, _, err := readSpec(f, cmd.Flags(), []string{stackSweep})
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed(options.KeyOut) && s.settings.Out == options.DefaultOut {
		s.settings.Out = s.timedOut("stack-")
	}
	ctx := cmd.Context()
	if !f.dryRun {
		if err := s.join(ctx); err != nil {
			return err
		}
		defer s.leave()
	}
	m, err := s.matrix(ctx, spec)
	if err != nil {
		return err
	}
	named := namesTransports(spec, cmd.Flags(), []string{stackSweep})
	if named && !f.dryRun {
		if err := m.available(); err != nil {
			return err
		}
	}
	plan, err := sweep.Expand(spec, m)
	if err != nil {
		return explainSpec(err)
	}
	if f.dryRun {
		present.Plan(s.stdout, plan, s.beside())
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	dir := filepath.Join(s.settings.Out, reproducedRuns)
	outcome, interrupted := s.sweepInto(ctx, dir, m, plan, spec, f.resume)
	if outcome == nil {
		return interrupted
	}
	hasRing := s.cluster == nil && slices.ContainsFunc(plan.Cells, func(c sweep.Cell) bool { return c.Config.Transport == stackMicroTransport })
	if hasRing && ctx.Err() == nil {
		if err := s.stackRing(ctx); err != nil {
			return err
		}
	}
	if err := s.showStacks(); err != nil {
		return err
	}
	if interrupted != nil {
		s.note("to continue, repeat the command with --resume --out %s", s.settings.Out)
		return interrupted
	}
	return sweepVerdict(outcome, plan, named)
}

// stackRing measures the rings under shm.
func (s *session) stackRing(ctx context.Context) error {
	return s.storeMicro(ctx, stackMicroTransport, record.MicroRequest{Names: []string{stackMicro}, Duration: stackMicroTime}, stackMicroRepeats, "micro-"+stackMicro)
}

// showStacks writes the stacks of what was measured.
func (s *session) showStacks() error {
	all, err := consistency.ReadSet(s.settings.Out)
	if err != nil {
		return err
	}
	stacks := analyze.StacksOf(all)
	if s.settings.JSON {
		present.Warnings(s.stderr, all)
		return writeJSON(s.stdout, map[string]any{"kind": "stacks", "stacks": stacks})
	}
	present.Oversubscribed(s.stdout, all)
	present.Stacks(s.stdout, stacks)
	present.Warnings(s.stdout, all)
	fmt.Fprintf(s.stdout, "\nresults in %s; %s report %[1]s draws them\n", s.settings.Out, s.program)
	return nil
}
