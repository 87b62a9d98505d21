// Command lambda is the function behind the operations of mcpdocs. Wiring only:
// what they do is in package mcpdocs.
package main

import (
	"os"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/cloud/bedrock"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Serve(func(p installation.Parts) []api.Route { return mcpdocs.BindWith(p, bedrock.Models(p, os.Getenv)) })
}
