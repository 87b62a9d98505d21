// Command lambda is the function behind the operations of projects. Wiring only:
// what they do is in package projects.
package main

import (
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), projects.Routes(p.Deployments())).Edge(), nil
	})
}
