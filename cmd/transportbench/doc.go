// Command transportbench compares RPC transports. One runtime drives each of
// them through the same interface.
package main
