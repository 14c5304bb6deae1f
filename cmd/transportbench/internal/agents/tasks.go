package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/experiment/hosts/pmi"
)

// everyTask returns the starter of a job whose tasks all run this command. Task 0 coordinates; the
// others only need its ticket.
func (g *gathering) everyTask(ctx context.Context, task engine.Task, o options.Hosts) (*starter,
	error) {
	job, err := pmi.Open(os.Getenv)
	if err != nil {
		return nil, err
	}
	if job != nil && job.Size != task.Size {
		job = nil
	}
	if job == nil && (task.Engine != "srun" || engine.FindStep(os.Getenv) == "") {
		return nil, app.Usagef("%s started %d copies of this command, and each would be a run of "+
			"its own: run it once, with --launch \"%[1]s ...\"", task.Engine, task.Size)
	}
	if o.Hosts+o.Hostfile+o.Launch != "" || o.Agents != 0 {
		return nil, app.Usagef("every task of %s runs this command, so each is a host of the "+
			"run: leave out --hosts, --hostfile, --launch and --agents", task.Engine)
	}
	st := &starter{agents: task.Size, task: task, job: job, listen: cmp.Or(o.Listen, ":0")}
	if job == nil {
		st.listen = cmp.Or(o.Listen, stepListen)
		if st.ticket, err = g.stepTicket(ctx, st); err != nil {
			return nil, err
		}
	}
	if task.Rank > 0 {
		return st, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the path of this command: %w", err)
	}
	args := []string{self, "agent", "--index", "0"}
	if g.settings.PluginDir != "" {
		args = append(args, "--"+options.KeyPluginDir, g.settings.PluginDir)
	}
	host, err := os.Hostname()
	st.processes = []engine.Process{{Label: host, Argv: args}}
	if err == nil && job != nil {
		_, err = g.seal(st)
	}
	return st, err
}

// stepListen is where task 0 of a step of Slurm listens by default: the others cannot ask it.
const stepListen = ":7177"

// stepTicket returns the ticket of a step of Slurm whose tasks have no PMI-1 to share one. Each
// makes it from what all know: the step's name and nodes, and the secret of their hosts.
func (g *gathering) stepTicket(ctx context.Context, st *starter) (ticket hosts.Ticket, err error) {
	host, port, err := net.SplitHostPort(st.listen)
	if err != nil || port == "0" {
		return ticket, app.Usagef("--%s: %q has no port that every task knows", options.KeyListen,
			st.listen)
	}
	path, err := g.secretPath()
	if err != nil {
		return ticket, err
	}
	if path == "" {
		return ticket, app.Usagef("tasks of srun find each other by the secret of their hosts: "+
			"leave out --%s %s, or use srun --mpi=pmi2", options.KeySecret, options.NoSecret)
	}
	var secret hosts.Secret
	if st.task.Rank == 0 {
		secret, err = hosts.MakeSecret(path)
	} else {
		secret, err = awaitSecret(ctx, path)
	}
	if err != nil {
		return ticket, err
	}
	number := sha256.Sum256([]byte(engine.FindStep(os.Getenv)))
	ticket.Token = secret.Token(hosts.Token(number[:len(ticket.Token)]))
	ticket.Addresses = []string{net.JoinHostPort(cmp.Or(host, engine.FirstNode(os.Getenv)), port)}
	return ticket, nil
}

// awaitSecret reads the secret, which task 0 makes if there is none yet.
func awaitSecret(ctx context.Context, path string) (hosts.Secret, error) {
	for end := time.Now().Add(shareTimeout); ; {
		secret, err := hosts.ReadSecret(path)
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			return secret, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(shareTimeout / 100):
		}
	}
}

// shareTimeout bounds the time in which all tasks must have started. A launcher does not tell tasks
// that wait for another that this one has failed.
const shareTimeout = 15 * time.Second

// share gives rank 0's ticket to all tasks.
func (st *starter) share(ctx context.Context, ticket string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, shareTimeout,
		fmt.Errorf("the tasks of the job did not all start within %v, or one has failed; the "+
			"launcher's lines name it, and srun --kill-on-bad-exit ends the job at once",
			shareTimeout))
	defer cancel()
	type answer struct {
		ticket string
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		shared, err := st.job.Share("transportbench", ticket)
		if err == nil {
			err = st.job.Close()
		}
		answers <- answer{shared, err}
	}()
	select {
	case a := <-answers:
		return a.ticket, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// serveTask makes this task an agent of task 0's run.
func (g *gathering) serveTask(ctx context.Context, st *starter) error {
	ticket := st.ticket
	if st.job != nil {
		text, err := st.share(ctx, "")
		if err == nil {
			ticket, err = hosts.ParseTicket(text)
		}
		if err != nil {
			return fmt.Errorf("ticket of task 0: %w", err)
		}
		path, err := g.secretPath()
		if err == nil {
			ticket, err = unseal(ticket, path)
		}
		if err != nil {
			return err
		}
	}
	if err := serveCoordinator(ctx, g.App, g.settings, ticket, joinPatience, st.task.Rank,
		""); err != nil {
		return err
	}
	return app.ErrServed
}
