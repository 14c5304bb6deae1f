// Command transportbench compares RPC transports. One runtime drives each of
// them through the same interface, so only the transport differs.
package main
