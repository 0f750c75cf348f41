// Package web is what REST and MCP share of a request: strict JSON.
package web
