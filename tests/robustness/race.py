"""How threads race in the scripts of these tests."""

# All begin together, and whatever is not among `errors` ends the process.
RACE = """
def race(*functions, turns=300, errors=(zrt.errors.BusyError,)):
    barrier = threading.Barrier(len(functions))
    counts = [0] * len(functions)

    def begin(number, function):
        barrier.wait()
        for turn in range(turns):
            try:
                function(turn)
            except errors:
                continue
            counts[number] += 1

    threads = [threading.Thread(target=begin, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts

def same(found, wanted):
    assert np.array_equal(found, wanted), (found, wanted)

# end = start + turns, one a turn: it runs for as long as a test wishes.
counting = zrt.Session(models.counting_loop(), QUIET)
"""
