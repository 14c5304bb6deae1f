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
	"path/filepath"
	"strconv"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"transportbench/core/plugin/internal/wire"
)

// closeTimeout is how long a plugin that must end spends on closing its
// transport. It is shorter than the host's patience.
const closeTimeout = time.Second

// serveHost serves the host that started this process until it says that it is
// done, or is gone.
func serveHost(server *wire.Server) int {
	// go-plugin puts pipes in the places of os.Stdout and os.Stderr; the log
	// stays with the true standard error.
	level := logLevel(os.Getenv(wire.EnvLogLevel))
	slog.SetDefault(newLogger(os.Stderr, level))
	// Never released: whichever end comes first is the only one.
	var end sync.Mutex
	if err := watchParent(func() {
		end.Lock()
		finish(server)
		removeSockets(os.Getenv(goplugin.EnvUnixSocketDir))
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
		// A mesh of many workers has long lists of addresses; go-plugin lifts
		// the limit for answers only.
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32))...)
		},
	}
}

// finish closes the rank in bounded time.
func finish(server *wire.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		slog.Error("closing the transport", "error", err)
	}
}

// watchParent calls gone, in a goroutine, once the host no longer holds its end
// of the pipe. Without a pipe there is nothing to watch.
func watchParent(gone func()) error {
	text := os.Getenv(wire.EnvParent)
	if text == "" {
		return nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s: %w", wire.EnvParent, err)
	}
	// What this process starts must neither read the pipe nor look for it.
	if err := os.Unsetenv(wire.EnvParent); err != nil {
		return err
	}
	unix.CloseOnExec(fd)
	// Non-blocking, so that the wait costs no thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("%s: descriptor %d: %w", wire.EnvParent, fd, err)
	}
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() {
		// Nothing is ever written to the pipe.
		_, _ = io.Copy(io.Discard, pipe)
		gone()
	}()
	return nil
}

// removeSockets removes what a host that vanished cannot: the sockets in dir,
// and the directories that this leaves empty. It touches nothing else.
func removeSockets(dir string) {
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the host did it in time
	}
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	// Each of these fails where something is left in the directory.
	for range 3 {
		if unix.Rmdir(dir) != nil {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// serveDebug serves any host until ctx ends or a signal asks for it, and prints
// how to connect.
func serveDebug(ctx context.Context, name string, server *wire.Server, stdout io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))

	reattach := make(chan *goplugin.ReattachConfig, 1)
	closed := make(chan struct{})
	config := serveConfig(server, slog.LevelInfo)
	config.Test = &goplugin.ServeTestConfig{Context: ctx, ReattachConfigCh: reattach, CloseCh: closed}
	go goplugin.Serve(config)

	select {
	case r := <-reattach:
		line, err := reattachLine(name, r)
		if err != nil {
			slog.Error("printing the address", "error", err)
			return exitInternal
		}
		fmt.Fprintf(stdout, "Set this for transportbench; with several ranks, put all lists behind each other:\n%s\n", line)
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
