package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/transport"
	"transportbench/plugins/copyrpc"
	"transportbench/plugins/erpc"
	"transportbench/plugins/grpc"
	"transportbench/plugins/ofi"
	"transportbench/plugins/shm"
	"transportbench/plugins/sockets"
	"transportbench/plugins/tcpx"
	"transportbench/plugins/ucxam"
)

// update makes the tests write the generated parts of documents.
var update = doctest.Update

// drivers has every transport that can be chosen for use.
var drivers = []transport.Driver{
	shm.Driver{}, copyrpc.Driver{}, erpc.Driver{}, ucxam.Driver{}, ofi.Driver{}, tcpx.Driver{},
	sockets.Driver{}, grpc.Driver{},
}

// listed matches the list of transports in a document.
var listed = regexp.MustCompile(`(?s)<!-- transports -->\n.*?<!-- end of transports -->`)

// TestListOfTransports compares the README's list with the transports' own descriptions. With
// -update it rewrites the list.
func TestListOfTransports(t *testing.T) {
	var table bytes.Buffer
	fmt.Fprint(&table, "<!-- transports -->\n| made for | transport | choose it |\n|---|---|---|\n")
	for _, group := range transport.Groups() {
		for _, d := range drivers {
			if info := d.Info(); info.Group() == group {
				fmt.Fprintf(&table, "| %s | %s | %s |\n", group, link(info.Name), info.Choose)
			}
		}
	}
	fmt.Fprint(&table, "<!-- end of transports -->")

	const document = "../README.md"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	block := listed.Find(text)
	require.NotEmpty(t, block)
	if *update {
		require.NoError(t, os.WriteFile(document, bytes.Replace(text, block, table.Bytes(), 1),
			0o644))
		return
	}
	require.Equal(t, table.String(), string(block), "%s: go test ./docs -run %s -update", document,
		t.Name())
}

// Every plugin but the instrument is in the list.
func TestListIsComplete(t *testing.T) {
	names := []string{"calibration"}
	for _, d := range drivers {
		names = append(names, d.Info().Name)
	}
	plugins, err := os.ReadDir("../plugins")
	require.NoError(t, err)
	var listed []string
	for _, plugin := range plugins {
		listed = append(listed, plugin.Name())
	}
	require.ElementsMatch(t, listed, names)
}

// link returns the name of a transport, which leads to its page if it has one.
func link(name string) string {
	page := "transports/" + name + ".md"
	if _, err := os.Stat(page); err != nil {
		return fmt.Sprintf("`%s`", name)
	}
	return fmt.Sprintf("[`%s`](docs/%s)", name, page)
}

// Every transport has the version of the project.
func TestVersions(t *testing.T) {
	for _, d := range drivers {
		require.Equal(t, core.Version, d.Info().Version, d.Info().Name)
	}
}
