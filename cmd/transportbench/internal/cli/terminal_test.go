package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/cmd/transportbench/internal/clitest"
)

// openTerminal returns a terminal of the given width, and the side that reads what is written to
// it.
func openTerminal(t *testing.T, columns uint16) (terminal, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { reader.Close() })
	control := int(reader.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(control, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(control, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(control, unix.TIOCSWINSZ,
		&unix.Winsize{Col: columns, Row: 24}))
	return terminal, reader
}

// TestTextsFitTheTerminal runs a command with a terminal as its standard output.
func TestTextsFitTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	const columns = 50
	terminal, reader := openTerminal(t, columns)
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader) // fails once nothing has the terminal open
		shown <- string(text)
	}()
	var stderr bytes.Buffer
	a := &app.App{Program: "bin/transportbench", Args: []string{"analyze", clitest.CommittedSet,
		"--cell", "shm,in_flight=1"},
		Stdout: terminal, Stderr: &stderr, Began: time.Now(), Run: clitest.Succeed}
	require.Zero(t, cli.Execute(context.Background(), a), stderr.String())
	require.NoError(t, terminal.Close())
	text := <-shown
	texts := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "  - ") { // tables do not wrap
			texts++
			require.Less(t, utf8.RuneCountInString(line), columns, text)
		}
	}
	require.NotZero(t, texts, text)
}
