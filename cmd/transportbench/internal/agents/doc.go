// Package agents starts the agents of a run on other hosts, and is one.
package agents
