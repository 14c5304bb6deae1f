// Package hosts gives tests two hosts: network namespaces joined by a wire, whose rate can be
// limited. They end with the test's process, however that ends.
package hosts
