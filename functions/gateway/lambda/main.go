// Command lambda is the function that serves deployments behind API Gateway. It only starts package gateway, which has
// the logic.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.StartWithShutdown(context.Background(), gateway.OpenWithShutdown) }
