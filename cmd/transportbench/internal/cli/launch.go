package cli

import (
	"context"
	"fmt"
	"log/slog"

	"transportbench/core/base/machine"
	"transportbench/core/lab/runner"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
)

// launcher starts the ranks of one transport on this machine, or connects to
// those that run in a debugger.
type launcher struct {
	plugin   *host.Plugin
	options  host.LaunchOptions
	attached []plugin.Reattach // by rank; none is to start them
}

func newLauncher(p *host.Plugin, opts host.LaunchOptions) (*launcher, error) {
	l := &launcher{plugin: p, options: opts}
	all, err := host.Reattachments()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Transport == p.Name {
			l.attached = append(l.attached, r)
		}
	}
	return l, nil
}

// Launch implements [runner.Launcher].
func (l *launcher) Launch(ctx context.Context, rank int) (runner.Process, error) {
	var (
		p   *host.Process
		err error
	)
	switch {
	case len(l.attached) == 0:
		p, err = l.plugin.Launch(ctx, l.options)
	case rank < len(l.attached):
		p, err = host.Attach(ctx, l.attached[rank], l.options)
	default:
		err = fmt.Errorf("%s has %d of the plugins of transport %s, and there are more ranks; add this one or unset it",
			plugin.EnvReattach, len(l.attached), l.plugin.Name)
	}
	if err != nil {
		return nil, err
	}
	return process{p, l.options.Logger}, nil
}

// process is a rank whose end is nobody's to handle but the log's.
type process struct {
	*host.Process
	logger *slog.Logger
}

// Kill implements [runner.Process].
func (p process) Kill() {
	if err := p.Process.Kill(); err != nil {
		p.logger.Error("a plugin does not end", "error", err)
	}
}

// thisMachine is what all runs on this machine have in common.
type thisMachine struct {
	cpus        []machine.CPU
	environment machine.Environment
}

// readMachine reads it, with the processors that this process may use only.
func readMachine() (thisMachine, error) {
	online, err := machine.Topology()
	if err != nil {
		return thisMachine{}, err
	}
	allowed, err := machine.AllowedCPUs()
	if err != nil {
		return thisMachine{}, err
	}
	may := map[int]bool{}
	for _, id := range allowed {
		may[id] = true
	}
	m := thisMachine{environment: machine.ReadEnvironment()}
	for _, cpu := range online {
		if may[cpu.ID] {
			m.cpus = append(m.cpus, cpu)
		}
	}
	return m, nil
}
