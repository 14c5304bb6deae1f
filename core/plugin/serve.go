package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"transportbench/core/plugin/internal/wire"
)

// closeTimeout bounds the time to close the transport when a plugin ends. It is shorter than the
// host's grace period.
const closeTimeout = time.Second

// serveHost serves the host that started this process until the host asks it to end or is gone.
func serveHost(server *wire.Server) int {
	// go-plugin replaces os.Stdout and os.Stderr by pipes; the log keeps the real standard error.
	level := logLevel(os.Getenv(wire.EnvLogLevel))
	slog.SetDefault(newLogger(os.Stderr, level))
	// Never unlocked: only the first of two ends finishes.
	var end sync.Mutex
	if err := watchParent(func() {
		end.Lock()
		finish(server)
		os.Exit(exitOrphaned)
	}); err != nil {
		slog.Error("cannot watch the host", "error", err)
		return exitInternal
	}
	goplugin.Serve(serveConfig(server, level))
	end.Lock()
	finish(server)
	return exitOK
}

func serveConfig(server *wire.Server, level slog.Level) *goplugin.ServeConfig {
	return &goplugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		Plugins:         goplugin.PluginSet{wire.ServiceName: &wire.Plugin{Control: server}},
		Logger:          newHCLogger(os.Stderr, level),
		// The addresses of a large mesh exceed gRPC's default limit, which go-plugin raises only
		// for replies.
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32))...)
		},
	}
}

// finish closes the rank, within closeTimeout.
func finish(server *wire.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		slog.Error("closing the transport", "error", err)
	}
}

// watchParent calls gone, in a goroutine, when the host's end of the pipe closes. It does nothing
// if there is no pipe.
func watchParent(gone func()) error {
	text := os.Getenv(wire.EnvParent)
	if text == "" {
		return nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s: %w", wire.EnvParent, err)
	}
	// Children of this process must not inherit the pipe or the variable.
	if err := os.Unsetenv(wire.EnvParent); err != nil {
		return err
	}
	unix.CloseOnExec(fd)
	// A non-blocking descriptor waits in the poller and needs no thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("%s: descriptor %d: %w", wire.EnvParent, fd, err)
	}
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() {
		// The host never writes to the pipe.
		_, _ = io.Copy(io.Discard, pipe)
		gone()
	}()
	return nil
}

// serveDebug prints its address and serves any host until ctx ends or SIGINT or SIGTERM arrives.
func serveDebug(ctx context.Context, name string, server *wire.Server, stdout io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	slog.SetDefault(
		slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))

	reattach := make(chan *goplugin.ReattachConfig, 1)
	closed := make(chan struct{})
	config := serveConfig(server, slog.LevelInfo)
	config.Test = &goplugin.ServeTestConfig{Context: ctx, ReattachConfigCh: reattach,
		CloseCh: closed}
	go goplugin.Serve(config)

	select {
	case r := <-reattach:
		line, err := reattachLine(name, r)
		if err != nil {
			slog.Error("printing the address", "error", err)
			return exitInternal
		}
		fmt.Fprintf(stdout, "Set this variable for transportbench; with several ranks, "+
			"concatenate their lists:\n%s\n", line)
		<-closed
		finish(server)
		return exitOK
	case <-closed:
		return exitInternal // go-plugin has logged why
	}
}

func reattachLine(name string, r *goplugin.ReattachConfig) (string, error) {
	list, err := json.Marshal([]Reattach{{
		Transport:       name,
		ProtocolVersion: r.ProtocolVersion,
		PID:             r.Pid,
		Network:         r.Addr.Network(),
		Address:         r.Addr.String(),
	}})
	return fmt.Sprintf("%s='%s'", EnvReattach, list), err
}
