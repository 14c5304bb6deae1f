package sock

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
)

// congestionControls lists the loaded congestion controls, and allowedCongestionControls those open
// to unprivileged processes. A privileged process loads other modules on demand.
const (
	congestionControls        = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	allowedCongestionControls = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	defaultCongestionControl  = "/proc/sys/net/ipv4/tcp_congestion_control"
)

// DefaultCongestion is the default of the option for congestion control: cubic, the default of most
// kernels, so that results of machines with other defaults compare. If the kernel refuses cubic to
// this process, it is the kernel's default.
var DefaultCongestion = sync.OnceValue(func() string {
	if cubic := "cubic"; tryCongestion(cubic) == nil {
		return cubic
	}
	return kernelCongestion()
})

func kernelCongestion() string {
	inForce, _ := os.ReadFile(defaultCongestionControl)
	return strings.TrimSpace(string(inForce))
}

// CheckCongestion returns an [*transport.OptionError] for the option with this name if the kernel
// refuses a congestion control. An empty one is the kernel's default.
func CheckCongestion(option, control string) error {
	if control == "" {
		return nil
	}
	err := tryCongestion(control)
	if err == nil {
		return nil
	}
	known, _ := os.ReadFile(congestionControls)
	available := strings.Fields(string(known))
	if slices.Contains(available, control) && errors.Is(err, unix.EPERM) {
		known, _ = os.ReadFile(allowedCongestionControls)
		return &transport.OptionError{Option: option, Problem: fmt.Sprintf(
			"only root may use %q here, other users %s; set one of these, or add it to "+
				"net.ipv4.tcp_allowed_congestion_control",
			control, strings.Join(strings.Fields(string(known)), ", "))}
	}
	return &transport.OptionError{Option: option,
		Problem: fmt.Sprintf("the kernel refuses %q (%v); it has %s%s", control, err,
			strings.Join(available, ", "), suggest.For(control, available))}
}

// tryCongestion returns nil if the kernel accepts a congestion control.
func tryCongestion(control string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
	return errors.Join(err, unix.Close(fd))
}

// CongestionInForce returns the congestion control of sockets with this setting.
func CongestionInForce(control string) string {
	if control != "" {
		return control
	}
	return kernelCongestion() + " (the kernel's default)"
}
