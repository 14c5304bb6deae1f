// Package ucptest sends what no worker of package ucp sends. It is for tests.
package ucptest
