package sock

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCongestionWithoutPrivileges: the default is one that a process without privileges may use.
func TestCongestionWithoutPrivileges(t *testing.T) {
	allowed, err := os.ReadFile(allowedCongestionControls)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// and never unlocked, so that the thread ends with its lack of privileges
		runtime.LockOSThread()
		none := [2]unix.CapUserData{}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Errorf("drop privileges: %v", err)
			return
		}
		chosen := DefaultCongestion()
		if !strings.Contains(" "+strings.TrimSpace(string(allowed))+" ", " "+chosen+" ") {
			t.Errorf("%q is none of %s", chosen, allowed)
		}
		if err := CheckCongestion("congestion-control", chosen); err != nil {
			t.Error(err)
		}
	}()
	<-done
}
