internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// OBSERVE states no shorter time to persist.
    ///
    /// Clients repeat OBSERVE for ten seconds if the field is 0, and otherwise for twice its time. A shorter
    /// time would end that, on a fast disk before the first repetition.
    private static let statedMillisecondsMin: UInt32 = 5_001

    private func statedMillisecondsToPersist(_ bucket: OpenBucket) -> UInt32 {
        let estimate = bucket.disk?.millisecondsToPersist ?? 0
        return estimate >= Connection.statedMillisecondsMin ? estimate : 0
    }

    /// OBSERVE_SEQNO: reports how far a vBucket's history has arrived here, and how far it is
    /// persisted.
    ///
    /// Clients query all copies to count those that have a write: a replica reports its covered
    /// seqno. The commit of an unpersisted change starts at once, since a client waits for it.
    ///
    /// An active copy answers 0x01 if its failover log lacks the history: its changes may be lost.
    func observeSeqno(_ request: CommandContext) -> Execution {
        let bucket = selectedBucket
        guard request.frame.value.count == 8 else {
            return refuse(request, .invalid, "OBSERVE_SEQNO needs a vBucket UUID.")
        }
        let number = vBucketNumber(request.frame, bucket.engine)
        guard let (vBucket, state) = observable(number, request, in: bucket.engine) else {
            return .done
        }
        let asked = VBucketUUID(request.frame.value.bigEndian(at: 0, as: UInt64.self))
        let scratch = context.scratch
        scratch.removeAll()
        var (isBehind, isKnown) = (false, true)
        let isHere = vBucket.withCore { core in
            guard core.state == state else { return false }
            isBehind = core.durableSeqno < core.highSeqno
            let log = core.failoverLog.entries
            let knows = log.contains { $0.uuid == asked }
            var (onDisk, high) = (core.durableSeqno, core.highSeqno)
            if state == .replica {
                // A history that the replica does not know counts as absent, whatever its own
                // seqno.
                (onDisk, high) = knows ? (core.coveredOnDisk, core.coveredSeqno) : (.zero, .zero)
            } else if !knows {
                isKnown = false
                return true
            }
            let old = log.firstIndex { $0.uuid == asked }.flatMap { $0 == 0 ? nil : log[$0 - 1] }
            scratch.append(old == nil ? 0 : 1)
            scratch.append(bigEndian: number)
            scratch.append(bigEndian: core.uuid.value)
            scratch.append(bigEndian: onDisk.value)
            scratch.append(bigEndian: high.value)
            if let old {
                scratch.append(bigEndian: asked.value)
                scratch.append(bigEndian: old.seqno.value)
            }
            return true
        }
        guard isHere else { return refuse(request, for: .notMyVBucket) }
        guard isKnown else {
            return refuse(request, .keyNotFound, "The vBucket has no history of this UUID.")
        }
        if isBehind { bucket.disk?.flushNow(VBucketID(number)) }
        respond(request, .success, value: scratch.view)
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    /// The protocol's key states.
    private enum KeyState: UInt8 {
        case notPersisted = 0x00
        case persisted = 0x01
        case notFound = 0x80
        case logicallyDeleted = 0x81

        /// - Parameters:
        ///   - item: The newest version.
        ///   - durable: Changes up to this seqno are on disk.
        init(_ item: Item, _ durable: Seqno) {
            let isOnDisk = item.seqno <= durable
            self =
                item.isDeleted
                ? (isOnDisk ? .notFound : .logicallyDeleted)
                : (isOnDisk ? .persisted : .notPersisted)
        }
    }

    /// OBSERVE: the state of single keys, for older clients.
    ///
    /// The CAS field of the answer has the time until the changes that wait for the disk are persisted, in
    /// milliseconds, in its high 32 bits. The low 32 bits are of replication, whose time is not measured.
    ///
    /// The answer has at most `Limits.observeBytesMax`; a request for more keys is too big. It is executed
    /// on the reactor, and again after each wait.
    func observe(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        let result = ByteWriter()
        var reader = ByteReader(request.frame.value)
        while !reader.isAtEnd {
            guard let number = reader.bigEndian(UInt16.self),
                let keyCount = reader.bigEndian(UInt16.self), keyCount > 0,
                Int(keyCount) <= Limits.keyBytesMax, let key = reader.bytes(Int(keyCount))
            else { return refuse(request, .invalid, "OBSERVE needs (vBucket, key) pairs.") }
            let entryCount = 13 + key.count
            guard result.count + entryCount <= Limits.observeBytesMax else {
                let text = "The answer to OBSERVE would exceed 1 MiB. Request fewer keys."
                return refuse(request, .tooBig, text)
            }
            guard let copy = observable(number, request, in: bucket.engine) else { return .done }
            let document = DocumentAddress(
                key: key,
                hash: service.hash(key),
                id: VBucketID(number),
                vBucket: copy.vBucket
            )
            var (state, cas) = (KeyState.notFound, CAS.none)
            let operations = operations(request, on: bucket, completion)
            let outcome =
                copy.state == .active
                ? operations.readMeta(document) { item, itsCAS, core in
                    (state, cas) = (KeyState(item, core.durableSeqno), itsCAS)
                }
                : operations.readReplicaMeta(document) { item, itsCAS, core in
                    // A change of an incomplete snapshot may be rolled back.
                    guard item.seqno <= core.coveredSeqno else { return }
                    (state, cas) = (KeyState(item, core.coveredOnDisk), itsCAS)
                }
            switch outcome {
            // Metadata is neither locked nor prepared.
            case .done, .refused(.notFound), .refused(.locked), .refused(.writeInProgress): break
            case .refused(let refusal):
                return refuse(request, for: refusal)
            case .wait(let need):
                return wait(request, for: need, of: document, bucket, completion)
            case .prepared: preconditionFailure("a read stores nothing")
            }
            if state == .notPersisted { bucket.disk?.flushNow(VBucketID(number)) }
            result.append(bigEndian: number)
            result.append(bigEndian: keyCount)
            result.append(key)
            result.append(state.rawValue)
            result.append(bigEndian: cas.value)
        }
        let milliseconds = statedMillisecondsToPersist(bucket)
        respond(request, .success, cas: CAS(UInt64(milliseconds) << 32), value: result.view)
        return .done
    }
}
