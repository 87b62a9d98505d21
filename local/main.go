// Command local is the whole product on a laptop (package product); `make run` starts it.
package main

import (
	"context"
	"os"

	"github.com/gatewright/gatewright/local/product"
)

func main() { os.Exit(product.Laptop.Main(context.Background(), os.Args[1:])) }
