package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"transportbench/core/base/machine"
	"transportbench/core/plugin/host"
)

// spinName is the name of the hidden command with which calibrate loads the processors.
const spinName = "spin"

func (a *app) spinCommand() *cobra.Command {
	return &cobra.Command{
		Use: spinName + " CPU", Short: "Keep a processor busy until killed", Hidden: true,
		Args: takes(1, 1, "the number of one processor"),
		RunE: func(_ *cobra.Command, args []string) error {
			cpu, err := strconv.Atoi(args[0])
			if err != nil {
				return usagef("%q is not the number of a processor", args[0])
			}
			runtime.LockOSThread()
			if err := machine.Pin(cpu); err != nil {
				return err
			}
			for { //nolint:staticcheck // it is there to use the processor
			}
		},
	}
}

// spinOn starts a process that spins on each of the processors. The kernel ends them with this
// process if stop does not.
func spinOn(cpus []machine.CPU) (stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var running []*exec.Cmd
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // which reports the kill
		}
	}
	for _, cpu := range cpus {
		cmd := exec.Command(program, spinName, strconv.Itoa(cpu.ID))
		if err := host.StartTied(cmd); err != nil {
			stop()
			return nil, errors.Join(fmt.Errorf("starting a process on cpu %d", cpu.ID), err)
		}
		running = append(running, cmd)
	}
	return stop, nil
}
