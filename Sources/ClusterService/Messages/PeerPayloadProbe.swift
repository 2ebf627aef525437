internal import Vocabulary

/// Decodes and encodes every payload between nodes, for tests of recorded bytes.
///
/// The message types themselves are internal to this module.
package enum PeerPayloadProbe: String, CaseIterable, Sendable {
    case beat
    case beatReply
    case served
    case engage
    case engageAnswer
    case describe
    case describeAnswer
    case join
    case place
    case vBuckets
    case activate
    case reports
    case done
    case statistics
    case viewStatistics
    case document
    case documentOutcome
    case listing
    case keys
    case randomKey
    case leader
    case leaderAnswer
    case history
    case series
    case events
    case eventsAnswer
    case compact
    case compactViews
    case purge
    case epoch
    case epochAnswer
    case raft

    /// Decodes `bytes` and encodes the result again; nil if `bytes` cannot be decoded.
    package func rewrite(_ bytes: [UInt8]) -> [UInt8]? {
        switch self {
        case .beat: BeatMessage(bytes: bytes)?.bytes
        case .beatReply: BeatReplyMessage(bytes: bytes)?.bytes
        case .served: ServedMessage(bytes: bytes)?.bytes
        case .engage: EngageMessage(bytes: bytes)?.bytes
        case .engageAnswer: EngageAnswer(bytes: bytes)?.bytes
        case .describe: DescribeMessage(bytes: bytes)?.bytes
        case .describeAnswer: DescribeAnswer(bytes: bytes)?.bytes
        case .join: JoinRequest(bytes: bytes)?.bytes
        case .place: PeerPlace(bytes: bytes)?.bytes
        case .vBuckets: VBucketsCall(bytes: bytes)?.bytes
        case .activate: ActivateCall(bytes: bytes)?.bytes
        case .reports: ReportsAnswer(bytes: bytes)?.bytes
        case .done: DoneAnswer(bytes: bytes)?.bytes
        case .statistics: NodeStatistics(bytes: bytes)?.bytes
        case .viewStatistics: ViewStatistics(bytes: bytes)?.bytes
        case .document: DocumentCall(bytes: bytes)?.bytes
        case .documentOutcome: DocumentOutcome(bytes: bytes)?.bytes
        case .listing: ListingCall(bytes: bytes)?.bytes
        case .keys: KeyListing(bytes: bytes)?.bytes
        case .randomKey: RandomKeyCall(bytes: bytes)?.bytes
        case .leader: LeaderRequest(bytes: bytes)?.bytes
        case .leaderAnswer: LeaderAnswer(bytes: bytes)?.bytes
        case .history: HistoryCall(bytes: bytes)?.bytes
        case .series: StatisticsSampler.Series(bytes: bytes)?.bytes
        case .events: EventsCall(bytes: bytes)?.bytes
        case .eventsAnswer: EventsAnswer(bytes: bytes)?.bytes
        case .compact: BucketOrder(bytes: bytes)?.bytes
        case .compactViews: ViewCompactionOrder(bytes: bytes)?.bytes
        case .purge: BucketOrder(bytes: bytes)?.bytes
        case .epoch: EpochCall(bytes: bytes)?.bytes
        case .epochAnswer: EpochAnswer(bytes: bytes)?.bytes
        case .raft: RaftFrame.decode(bytes)?.encoded
        }
    }
}
