// Command lambda is the function that S3 tells of uploads. Wiring only:
// what it does is in package builder.
package main

import (
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		engine, err := durable.Engine(p)
		if err != nil {
			return nil, err
		}
		h := &builder.Handler{Claims: p.Deployments(), Engine: engine, Objects: p.Bucket, Log: p.Log}
		return h.Handle, nil
	})
}
