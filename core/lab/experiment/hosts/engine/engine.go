package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TicketVariable is the environment variable from which an agent takes its ticket.
const TicketVariable = "TRANSPORTBENCH_TICKET"

// Process is one command that starts agents, and ends when they do.
type Process struct {
	// Label names the process in its output and in errors: a host, or the engine.
	Label string
	Argv  []string
	// TicketOnInput means that the agent reads its ticket from standard input. Otherwise it is in
	// the environment. It is never an argument, which every user of the machine could read.
	TicketOnInput bool
}

// Launch returns the process of an engine such as "srun -N2", followed by the command of an agent
// and its arguments. A shell splits engine and agent, and env allows variables before the engine's
// name.
func Launch(engine, agent string, args ...string) []Process {
	words := slices.DeleteFunc(strings.Fields(engine),
		func(word string) bool { return strings.Contains(word, "=") })
	label := filepath.Base(append(words, "engine")[0])
	return []Process{
		{Label: label, Argv: append([]string{"/bin/sh", "-c", "exec env " + engine + " " + agent +
			` "$@"`, "sh"}, args...)}}
}

// SSH returns a process for each host, which starts an agent with its index. It runs the user's
// ssh, so that their configuration, keys and jump hosts apply; ssh never asks for a password,
// because the questions of several would mix.
func SSH(hosts []string, agent string, args ...string) []Process {
	var all []Process
	for i, host := range hosts {
		command := agent
		for _, word := range append(slices.Clone(args), "--join", "-", "--index", strconv.Itoa(i)) {
			command += " " + Quote(word)
		}
		all = append(all, Process{Label: host, TicketOnInput: true,
			Argv: []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--",
				host, command}})
	}
	return all
}

// Quote returns word as one word of a shell's command.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

const (
	// of a failed process, in its error; srun ends with four on what it did then
	tailLines   = 5
	patience    = 3 * time.Second  // before a process that should end gets SIGTERM
	killDelay   = 10 * time.Second // until it gets SIGKILL, unless it says that it takes longer
	outputDelay = time.Second      // for output of a process that has ended
	cancelTime  = 5 * time.Second  // for scancel
)

// launcherWaits matches what srun writes after SIGTERM. It waits KillWait of slurm.conf and two
// seconds for its tasks; killed earlier, it leaves its allocation behind.
var launcherWaits = regexp.MustCompile(`Waiting up to (\d{1,4}) seconds`)

// Engine is a set of running processes.
type Engine struct {
	log       func(label, line string)
	running   sync.WaitGroup
	failed    chan struct{} // closed with the first error
	patience  time.Duration
	killDelay time.Duration
	namesJob  bool // a process was asked to run in a job that exists

	mu     sync.Mutex
	groups map[int]bool  // process groups that run
	waits  time.Duration // how long a process says that it waits for its tasks
	first  error
}

// Start starts processes, which hand ticket to their agents. log gets each line of their output and
// may be called concurrently.
func Start(processes []Process, ticket string, log func(label, line string)) (*Engine, error) {
	e := &Engine{log: log, failed: make(chan struct{}), patience: patience, killDelay: killDelay,
		groups: map[int]bool{}}
	for _, p := range processes {
		e.namesJob = e.namesJob || namesJob.MatchString(strings.Join(p.Argv, " "))
		if err := e.start(p, ticket); err != nil {
			e.signal(syscall.SIGTERM)
			e.Stop("")
			return nil, err
		}
	}
	return e, nil
}

func (e *Engine) start(p Process, ticket string) error {
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = environment(os.Environ(), ticket)
	if p.TicketOnInput {
		cmd.Env = os.Environ()
		cmd.Stdin = strings.NewReader(ticket + "\n")
	}
	cmd.WaitDelay = outputDelay
	// A group of its own: an interrupt from the terminal is for the coordinator, which ends the
	// agents.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	started := make(chan error)
	e.running.Go(func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			e.mark(cmd.Process.Pid, true)
		}
		started <- err
		if err != nil {
			return
		}
		lines := make(chan []string)
		go func() { lines <- e.pass(p.Label, output) }()
		err = cmd.Wait()
		e.mark(cmd.Process.Pid, false)
		_ = input.Close()
		e.ended(p, err, <-lines)
	})
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Label, err)
	}
	return nil
}

func (e *Engine) mark(group int, runs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if runs {
		e.groups[group] = true
	} else {
		delete(e.groups, group)
	}
}

// environment returns variables with the ticket. Open MPI passes its processes no others than its
// own variables, except those that the list in one of these names. Unless the user has decided
// otherwise, srun ends its step when a task fails, as mpirun does: it would keep the others, and
// the coordinator would wait for the agent that failed.
func environment(variables []string, ticket string) []string {
	const list = "OMPI_MCA_mca_base_env_list="
	const endOnFailure = "SLURM_KILL_BAD_EXIT="
	names := TicketVariable
	decided := slices.ContainsFunc(variables,
		func(v string) bool { return strings.HasPrefix(v, endOnFailure) })
	variables = slices.DeleteFunc(slices.Clone(variables), func(v string) bool {
		own, found := strings.CutPrefix(v, list)
		if found && own != "" {
			names = own + ";" + names
		}
		return found
	})
	if !decided {
		variables = append(variables, endOnFailure+"1")
	}
	return append(variables, TicketVariable+"="+ticket, list+names)
}

// pass logs lines and returns the last.
func (e *Engine) pass(label string, output io.Reader) (last []string) {
	lines := bufio.NewReaderSize(output, 4<<10)
	for {
		line, _, err := lines.ReadLine() // a longer line comes in parts
		if err != nil {
			return last
		}
		if text := strings.TrimPrefix(strings.TrimSpace(string(line)), label+": "); text != "" {
			e.log(label, text)
			if found := launcherWaits.FindStringSubmatch(text); found != nil {
				seconds, _ := strconv.Atoi(found[1])
				e.mu.Lock()
				e.waits = time.Duration(seconds) * time.Second
				e.mu.Unlock()
			}
			if strings.Trim(text, "-") == "" {
				continue // a rule, of Open MPI
			}
			if last = append(last, text); len(last) > tailLines {
				last = last[1:]
			}
		}
	}
}

// ExitError reports an engine that ended before the run did.
type ExitError struct {
	Label string
	Err   error    // nil for exit status 0
	Lines []string // the last of its output
}

func (e *ExitError) Error() string {
	text := e.Label + " ended before the run did"
	if e.Err != nil {
		text = fmt.Sprintf("%s failed: %v", e.Label, e.Err)
	}
	if len(e.Lines) > 0 {
		text += ": " + strings.Join(e.Lines, "; ")
	}
	return text
}

func (e *ExitError) Unwrap() error { return e.Err }

// NotFound reports whether a shell did not find or could not start the command.
func (e *ExitError) NotFound() bool {
	var status *exec.ExitError
	return errors.As(e.Err, &status) && (status.ExitCode() == 126 || status.ExitCode() == 127)
}

func (e *Engine) ended(p Process, err error, last []string) {
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a process that it left behind holds the pipe
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = &ExitError{p.Label, err, last}
		close(e.failed)
	}
}

// Failed returns a channel that is closed when the first process ends.
func (e *Engine) Failed() <-chan struct{} { return e.failed }

// Err returns the [*ExitError] of the first process that ended, or nil.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}

// Stop waits until all processes have ended, which they do soon after their agents. It sends
// SIGTERM to those that do not, and SIGKILL if that does not end them. Before SIGKILL it cancels
// the job of step, the agents' step of Slurm or "": srun could not do so any more. A nil engine has
// no processes.
func (e *Engine) Stop(step string) {
	if e == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		e.running.Wait()
		close(ended)
	}()
	endsWithin := func(limit time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(limit):
			return false
		}
	}
	if endsWithin(e.patience) {
		return
	}
	e.signal(syscall.SIGTERM)
	if endsWithin(e.killDelay) || endsWithin(e.stillWaits()) {
		return
	}
	if job := cancels(step, os.Getenv, e.namesJob); job != "" {
		cancelJob(job)
	}
	e.signal(syscall.SIGKILL)
	<-ended
}

// stillWaits returns how long after killDelay a process still waits for its tasks.
func (e *Engine) stillWaits() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waits
}

// cancelJob cancels a job or step of Slurm; its failure is Slurm's to report.
func cancelJob(job string) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	_ = exec.CommandContext(ctx, "scancel", "--", job).Run()
}

func (e *Engine) signal(signal syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for group := range e.groups {
		_ = syscall.Kill(-group, signal)
	}
}
