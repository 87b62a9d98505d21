package main

import (
	"context"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/local/instance"
)

// product is the running product, in a process of its own.
type product struct {
	*instance.Instance
	client client
}

// startTimeout bounds a start, and each request.
const startTimeout = 60 * time.Second

// start starts the product over the data directory and waits until it answers. turns
// are nil for the first start.
func start(ctx context.Context, binary, dir string, turns *instance.Turns) (*product, error) {
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return nil, err
	}
	if turns == nil {
		if turns, err = i.Turns(ctx); err != nil {
			i.Kill()
			return nil, err
		}
	}
	return &product{i, client{api: i.API, turns: turns, http: &http.Client{Timeout: startTimeout}}}, nil
}
