// Command transportbench compares RPC transports: one runtime drives each of
// them through the same interface, and only the transport changes.
package main
