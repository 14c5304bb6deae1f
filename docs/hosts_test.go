package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
)

// agentCost is a line that scripts/bench-hosts.sh prints.
type agentCost struct {
	Agents   int    `json:"agents"`
	Ring     bool   `json:"ring"`
	Revision string `json:"revision"`
	Setup    struct {
		FirstWindow float64 `json:"first_window_ms"`
	} `json:"setup"`
	ResultBytes float64 `json:"result_bytes"`
	Coordinator []struct {
		Written   float64 `json:"written"`
		MemoryKiB float64 `json:"memory_kib"`
	} `json:"coordinator"`
}

// sent returns the bytes that the coordinator wrote from the launch until ranks were connected.
func (c *agentCost) sent() float64 { return c.Coordinator[1].Written - c.Coordinator[0].Written }

func (c *agentCost) memory() (most float64) {
	for _, at := range c.Coordinator {
		most = max(most, at.MemoryKiB*1024)
	}
	return most
}

func bytesOf(n float64) string {
	if n < 1e5 {
		return fmt.Sprintf("%.2g KB", n/1e3)
	}
	return fmt.Sprintf("%.2g MB", n/1e6)
}

// TestScaleOfHosts compares the table of agents with the committed figures. With -update it
// rewrites the table.
func TestScaleOfHosts(t *testing.T) {
	const document = "hosts.md"
	file, err := os.ReadFile("../" + doctest.Hosts)
	require.NoError(t, err)
	rows := []string{"ranks, one for each agent", "all until the window", "sent to the ranks",
		"result of one repeat", "memory of the coordinator"}
	var ring, revision string
	for lines := json.NewDecoder(bytes.NewReader(file)); ; {
		var c agentCost
		err := lines.Decode(&c)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if revision = c.Revision; c.Ring {
			ring = fmt.Sprintf("With a ring, `--traffic matrix:FILE`, %d ranks are sent %s.",
				c.Agents, bytesOf(c.sent()))
			continue
		}
		for i, cell := range []string{fmt.Sprint(c.Agents),
			fmt.Sprintf("%.2g s", c.Setup.FirstWindow/1e3), bytesOf(c.sent()),
			bytesOf(c.ResultBytes), bytesOf(c.memory())} {
			rows[i] += " | " + cell
		}
	}
	table := "| " + rows[0] + " |\n" + strings.Repeat("|---", strings.Count(rows[0], "|")+1) + "|\n"
	for _, row := range rows[1:] {
		table += "| " + row + " |\n"
	}
	want := fmt.Sprintf("<!-- scale -->\n%s\n%s `%s`, revision %.8s.\n<!-- end of scale -->", table,
		ring, doctest.Hosts, revision)

	text, err := os.ReadFile(document)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)<!-- scale -->\n.*<!-- end of scale -->`).FindString(
		string(text))
	require.NotEmpty(t, block)
	if *update {
		require.NoError(t, os.WriteFile(document,
			[]byte(strings.Replace(string(text), block, want, 1)), 0o644))
		return
	}
	require.Equal(t, want, block, "go test ./docs -run %s -update", t.Name())
}
