// Package wire carries [record.Control] over gRPC: [Server] is the plugin's end and [Client] the
// host's. Messages are the JSON of the Go types in core/base/record, through a gRPC codec; there
// is no .proto file. The package also holds the constants on which both ends must agree.
//
// A client needs a connection only: starting and finding processes is not its concern, so the
// host reaches a rank on another machine in the same way as one that it started.
package wire
