package spin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/base/machine"
	"transportbench/core/plugin/host"
)

// Name is the name of the hidden command with which calibrate loads the processors.
const Name = "spin"

// Command returns the command, which writes to out.
func Command(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: Name + " CPU", Short: "Keep a processor busy until killed", Hidden: true,
		Args: app.Takes(1, 1, "the number of one processor"),
		RunE: func(_ *cobra.Command, args []string) error {
			cpu, err := strconv.Atoi(args[0])
			if err != nil {
				return app.Usagef("%q is not the number of a processor", args[0])
			}
			runtime.LockOSThread()
			if err := machine.Pin(cpu); err != nil {
				return err
			}
			if _, err := out.Write([]byte{'\n'}); err != nil { // it is ready
				return err
			}
			for { //nolint:staticcheck // it is there to use the processor
			}
		},
	}
}

// spinner is a process that spins on a processor.
type spinner struct {
	cpu    int
	cmd    *exec.Cmd
	ready  io.Reader // has a byte once the process is pinned
	stderr bytes.Buffer
}

func startSpinner(program string, cpu int) (*spinner, error) {
	s := &spinner{cpu: cpu, cmd: exec.Command(program, Name, strconv.Itoa(cpu))}
	s.cmd.Stderr = &s.stderr
	var err error
	if s.ready, err = s.cmd.StdoutPipe(); err == nil {
		err = host.StartTied(s.cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a process on cpu %d: %w", cpu, err)
	}
	return s, nil
}

// waitReady waits until the process is pinned.
func (s *spinner) waitReady() error {
	if _, err := io.ReadFull(s.ready, make([]byte, 1)); err == nil {
		return nil
	}
	err := s.cmd.Wait()
	if text := strings.TrimSpace(s.stderr.String()); text != "" || err == nil {
		err = errors.New(cmp.Or(text, "it ended"))
	}
	return fmt.Errorf("the process on cpu %d: %w", s.cpu, err)
}

// ended reports whether the process has ended. It leaves it to stop to reap it.
func (s *spinner) ended() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT,
		nil)
	return err != nil || info.Signo != 0
}

// stop ends the process if it still runs.
func (s *spinner) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // which reports the kill
}

// On starts a process that spins on each of the processors, and returns once all are pinned.
// running returns an error once one has ended. The kernel ends them with this process if stop does
// not.
func On(cpus []machine.CPU) (running func() error, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	var spinners []*spinner
	stop = func() {
		for _, s := range spinners {
			s.stop()
		}
		spinners = nil
	}
	for _, cpu := range cpus {
		s, err := startSpinner(program, cpu.ID)
		if err != nil {
			stop()
			return nil, nil, err
		}
		spinners = append(spinners, s)
	}
	for _, s := range spinners {
		if err := s.waitReady(); err != nil {
			stop()
			return nil, nil, err
		}
	}
	running = func() error {
		for _, s := range spinners {
			if s.ended() {
				return fmt.Errorf("the process that spins on cpu %d has ended", s.cpu)
			}
		}
		return nil
	}
	return running, stop, nil
}
