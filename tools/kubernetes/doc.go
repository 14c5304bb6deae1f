// Package kubernetes has the test of the manifests in docs/kubernetes.
package kubernetes
