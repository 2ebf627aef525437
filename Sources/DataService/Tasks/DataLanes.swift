internal import Bytes
internal import Seams

/// The lanes beside the reactors.
///
/// All buckets share them, so that a hundred buckets need no more threads than one.
///
/// Writers commit, readers fetch and warm up, `auxIO` reads for streams, `nonIO` evicts, expires
/// and cleans up, `durability` completes durable writes. Each has a context that is used on it
/// only. `passwords` checks logins: a check takes a processor for tens of milliseconds.
package final class DataLanes: Sendable {
    /// A lane and its context.
    struct Worker: Sendable {
        let lane: any Lane
        let context: LaneContext
    }

    let writers: [Worker]
    let readers: [Worker]
    let auxIO: Worker
    let nonIO: Worker
    let durability: Worker
    let passwords: any Lane

    init(environment: Environment, pool: ChunkPool, row: Int) {
        func worker(_ name: String, isPatient: Bool = true) -> Worker {
            Worker(
                lane: environment.lanes.makeLane(name, isPatient: isPatient),
                context: LaneContext(
                    row: row,
                    sharesRow: true,
                    pool: pool,
                    time: environment.time
                )
            )
        }
        writers = [worker("writer-0"), worker("writer-1")]
        // Requests wait for these.
        readers = [worker("reader-0", isPatient: false), worker("reader-1", isPatient: false)]
        auxIO = worker("aux-io")
        nonIO = worker("non-io")
        // Requests wait for it.
        durability = worker("durability", isPatient: false)
        passwords = environment.lanes.makeLane("passwords")
    }

    func writer(ofLane number: Int) -> Worker { writers[number % writers.count] }

    func reader(ofLane number: Int) -> Worker { readers[number % readers.count] }

    package func stop() {
        for worker in writers + readers + [auxIO, nonIO, durability] { worker.lane.stop() }
        passwords.stop()
    }
}
