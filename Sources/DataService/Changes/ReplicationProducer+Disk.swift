internal import Bytes
internal import Engine
internal import Persistence
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// What memory has no more comes from disk, on a lane that may wait for it.
extension ReplicationProducer {
    func openScan(_ stream: OutgoingStream, after: Seqno) {
        guard let lane = stream.bucket.disk?.file(of: stream.address.vBucket) else {
            return stream.machine.scanFailed()
        }
        stream.isBusy = true
        let (ticket, id, trace) = (stream.ticket, stream.address.vBucket, service.environment.trace)
        service.lanes.auxIO.lane.post { [letters] in
            do throws(StorageError) {
                letters.put(.opened(ticket, try lane.scan(id, after: after)))
            } catch {
                ReplicationProducer.tell(error, of: id, to: trace)
                letters.put(.failed(ticket))
            }
        }
    }

    func scan(_ stream: OutgoingStream, _ bytes: Int, _ last: Seqno) {
        guard let scan = stream.scan else { return stream.machine.scanFailed() }
        stream.isBusy = true
        let reading = OutgoingStream.Reading(
            scan: scan,
            vBucket: stream.vBucket,
            hash: service.hash,
            encoder: stream.encoder
        )
        let (ticket, worker) = (stream.ticket, service.lanes.auxIO)
        let (trace, id) = (service.environment.trace, stream.address.vBucket)
        worker.lane.post { [letters] in
            do throws(StorageError) {
                let slice = try reading.slice(
                    bytesMax: bytes,
                    last: last,
                    worker.context.scratch
                )
                letters.put(.slice(ticket, slice))
            } catch {
                ReplicationProducer.tell(error, of: id, to: trace)
                letters.put(.failed(ticket))
            }
        }
    }

    /// A copy that is dropped while it is read is nothing to report.
    private static func tell(_ error: StorageError, of id: VBucketID, to trace: any Trace) {
        guard error.code != .gone else { return }
        trace.error("replication", "backfill of \(id): \(error.description)")
    }
}
