"""A program that reads a page again and again until its input ends; says how often."""

import http.client
import selectors
import sys
import time
import urllib.parse


def main(url: str, every_s: float) -> None:
    """Read the page every so many seconds."""
    there = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(there.netloc)
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    pages, due = 0, time.monotonic()
    while not waiting.select(max(0.0, due - time.monotonic())):
        due = max(time.monotonic(), due + every_s)
        connection.request("GET", there.path)
        answer = connection.getresponse()
        while answer.read(2**20):
            pass
        pages += 1
    print(pages)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
