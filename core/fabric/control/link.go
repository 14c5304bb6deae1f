package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// unreachable are the errors of [Unreachable].
var unreachable = []unix.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EHOSTDOWN,
	unix.ETIMEDOUT}

// Unreachable reports whether err is what the kernel returns while no packet gets to a host: the
// link is down, its route is gone, or nothing answers there. The link may come back, so the error
// of a single call ends nothing; see [WhileUnreachable].
func Unreachable(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains(unreachable, errno)
}

// retryEvery is how long WhileUnreachable waits before it tries again.
const retryEvery = 10 * time.Millisecond

// WhileUnreachable calls try again and again while its error is [Unreachable], and returns its
// error. If ctx ends, it returns the cause with the error.
func WhileUnreachable(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !Unreachable(err) {
			return err
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
