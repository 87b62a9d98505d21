// Package operations advances durable operations: the table's stream calls it
// with those that have just begun or were given back, a schedule once a minute
// for those that are due or got stuck (design, section 6). The same schedule gives
// back what gateways that are gone had leased of quotas (section 8). Who runs the
// installation invokes it to look operations up and to resume one.
//
// No route leads here, and it knows no kind of operation: those come with the
// engine. Read function.go; what advancing means is package operation in shared.
package operations
