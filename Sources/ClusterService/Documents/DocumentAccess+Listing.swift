internal import Bytes
internal import Orchestration
package import Vocabulary

/// Documents of all nodes, in the order of their keys.
extension DocumentAccess {
    /// The most keys from one node: the most rows of a page plus the most skipped rows.
    private static var keysMax: Int { 2_000 }
    /// A node reads every key that it has.
    private static var listingTimeoutNanoseconds: UInt64 { 20_000_000_000 }

    /// The keys of one page, sorted by their bytes.
    package func list(
        bucket name: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing {
        guard let bucket = cluster.state.bucket(named: name) else { return .noBucket }
        let call = ListingCall(
            bucket: name,
            from: from,
            to: to,
            inclusiveEnd: inclusiveEnd,
            limit: min(skip + limit, Self.keysMax)
        )
        // The keys of a vBucket without a serving copy would be missing: report an error instead.
        guard bucket.placements.allSatisfy({ !$0.chain.isEmpty && $0.isConfirmed }) else {
            return .temporaryFailure
        }
        let owners = Set(bucket.placements.compactMap(\.chain.first)).sorted()
        var keys: [[UInt8]] = []
        for owner in owners {
            let outcome = owner == cluster.thisNode ? await carryOut(call) : await ask(owner, call)
            switch outcome {
            case .keys(let found):
                keys = Self.merge(keys, found, limit: call.limit)
            case .noBucket: return .noBucket
            case .temporaryFailure: return .temporaryFailure
            case .failed(let reason): return .failed(reason)
            }
        }
        let page = keys.dropFirst(skip).prefix(limit)
        return .keys(Array(page))
    }

    /// Merges two sorted lists without duplicates: during a move two nodes may return the same key.
    static func merge(_ one: [[UInt8]], _ other: [[UInt8]], limit: Int) -> [[UInt8]] {
        if one.isEmpty { return other }
        var merged: [[UInt8]] = []
        merged.reserveCapacity(min(one.count + other.count, limit))
        var (left, right) = (one[...], other[...])
        while merged.count < limit {
            guard let first = left.first else {
                merged += right.prefix(limit - merged.count)
                break
            }
            guard let second = right.first else {
                merged += left.prefix(limit - merged.count)
                break
            }
            if first == second {
                left.removeFirst()
            } else if first.lexicographicallyPrecedes(second) {
                merged.append(first)
                left.removeFirst()
            } else {
                merged.append(second)
                right.removeFirst()
            }
        }
        return merged
    }

    private func ask(_ node: NodeNumber, _ call: ListingCall) async -> KeyListing {
        await cluster.calls.ask(
            PeerKind.listing,
            call,
            to: node,
            timeoutNanoseconds: Self.listingTimeoutNanoseconds
        ) ?? .temporaryFailure
    }

    func carryOut(_ call: ListingCall) async -> KeyListing {
        let listing = await cluster.dataPlane.list(
            bucket: call.bucket,
            from: call.from,
            to: call.to,
            inclusiveEnd: call.inclusiveEnd,
            skip: 0,
            limit: min(call.limit, Self.keysMax)
        )
        // The map may have a bucket that this node has not opened yet.
        let isComing = listing == .noBucket && cluster.state.bucket(named: call.bucket) != nil
        return isComing ? .temporaryFailure : listing
    }
}
