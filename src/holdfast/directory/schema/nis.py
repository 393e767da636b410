"""RFC 2307: users, groups and maps for Unix."""

from typing import Final

ATTRIBUTES: Final = """
( 1.3.6.1.1.1.1.0 NAME 'uidNumber' EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX Integer
  SINGLE-VALUE )
( 1.3.6.1.1.1.1.1 NAME 'gidNumber' EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX Integer
  SINGLE-VALUE )
( 1.3.6.1.1.1.1.2 NAME 'gecos' EQUALITY caseIgnoreIA5Match SUBSTR caseIgnoreIA5SubstringsMatch SYNTAX
  IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.3 NAME 'homeDirectory' EQUALITY caseExactIA5Match SYNTAX IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.4 NAME 'loginShell' EQUALITY caseExactIA5Match SYNTAX IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.5 NAME 'shadowLastChange' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.6 NAME 'shadowMin' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.7 NAME 'shadowMax' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.8 NAME 'shadowWarning' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.9 NAME 'shadowInactive' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.10 NAME 'shadowExpire' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.11 NAME 'shadowFlag' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.12 NAME 'memberUid' EQUALITY caseExactIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.13 NAME 'memberNisNetgroup' EQUALITY caseExactIA5Match SUBSTR caseExactIA5SubstringsMatch
  SYNTAX IA5String )
( 1.3.6.1.1.1.1.14 NAME 'nisNetgroupTriple' EQUALITY caseIgnoreIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.15 NAME 'ipServicePort' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.16 NAME 'ipServiceProtocol' SUP name )
( 1.3.6.1.1.1.1.17 NAME 'ipProtocolNumber' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.18 NAME 'oncRpcNumber' EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE )
( 1.3.6.1.1.1.1.19 NAME 'ipHostNumber' SUP name )
( 1.3.6.1.1.1.1.20 NAME 'ipNetworkNumber' SUP name SINGLE-VALUE )
( 1.3.6.1.1.1.1.21 NAME 'ipNetmaskNumber' EQUALITY caseIgnoreIA5Match SYNTAX IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.22 NAME 'macAddress' EQUALITY caseIgnoreIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.23 NAME 'bootParameter' EQUALITY caseExactIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.24 NAME 'bootFile' EQUALITY caseExactIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.26 NAME 'nisMapName' SUP name )
( 1.3.6.1.1.1.1.27 NAME 'nisMapEntry' EQUALITY caseExactIA5Match SUBSTR caseExactIA5SubstringsMatch SYNTAX
  IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.28 NAME 'nisPublicKey' EQUALITY octetStringMatch SYNTAX OctetString SINGLE-VALUE )
( 1.3.6.1.1.1.1.29 NAME 'nisSecretKey' EQUALITY octetStringMatch SYNTAX OctetString SINGLE-VALUE )
( 1.3.6.1.1.1.1.30 NAME 'nisDomain' EQUALITY caseIgnoreIA5Match SYNTAX IA5String )
( 1.3.6.1.1.1.1.31 NAME 'automountMapName' EQUALITY caseExactIA5Match SUBSTR caseExactIA5SubstringsMatch
  SYNTAX IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.32 NAME 'automountKey' EQUALITY caseExactIA5Match SUBSTR caseExactIA5SubstringsMatch
  SYNTAX IA5String SINGLE-VALUE )
( 1.3.6.1.1.1.1.33 NAME 'automountInformation' EQUALITY caseExactIA5Match SUBSTR
  caseExactIA5SubstringsMatch SYNTAX IA5String SINGLE-VALUE )
"""

CLASSES: Final = """
( 1.3.6.1.1.1.2.0 NAME 'posixAccount' SUP top AUXILIARY MUST ( cn $ uid $ uidNumber $ gidNumber $
  homeDirectory ) MAY ( userPassword $ loginShell $ gecos $ description ) )
( 1.3.6.1.1.1.2.1 NAME 'shadowAccount' SUP top AUXILIARY MUST uid MAY ( userPassword $ description $
  shadowLastChange $ shadowMin $ shadowMax $ shadowWarning $ shadowInactive $ shadowExpire $ shadowFlag )
  )
( 1.3.6.1.1.1.2.2 NAME 'posixGroup' SUP top AUXILIARY MUST gidNumber MAY ( userPassword $ memberUid $
  description ) )
( 1.3.6.1.1.1.2.3 NAME 'ipService' SUP top STRUCTURAL MUST ( cn $ ipServicePort $ ipServiceProtocol ) MAY
  description )
( 1.3.6.1.1.1.2.4 NAME 'ipProtocol' SUP top STRUCTURAL MUST ( cn $ ipProtocolNumber ) MAY description )
( 1.3.6.1.1.1.2.5 NAME 'oncRpc' SUP top STRUCTURAL MUST ( cn $ oncRpcNumber ) MAY description )
( 1.3.6.1.1.1.2.6 NAME 'ipHost' SUP top AUXILIARY MUST ( cn $ ipHostNumber ) MAY ( userPassword $ l $
  description $ manager ) )
( 1.3.6.1.1.1.2.7 NAME 'ipNetwork' SUP top STRUCTURAL MUST ipNetworkNumber MAY ( cn $ ipNetmaskNumber $ l
  $ description $ manager ) )
( 1.3.6.1.1.1.2.8 NAME 'nisNetgroup' SUP top STRUCTURAL MUST cn MAY ( nisNetgroupTriple $
  memberNisNetgroup $ description ) )
( 1.3.6.1.1.1.2.9 NAME 'nisMap' SUP top STRUCTURAL MUST nisMapName MAY description )
( 1.3.6.1.1.1.2.10 NAME 'nisObject' SUP top STRUCTURAL MUST ( cn $ nisMapEntry $ nisMapName ) MAY
  description )
( 1.3.6.1.1.1.2.11 NAME 'ieee802Device' SUP top AUXILIARY MAY macAddress )
( 1.3.6.1.1.1.2.12 NAME 'bootableDevice' SUP top AUXILIARY MAY ( bootFile $ bootParameter ) )
( 1.3.6.1.1.1.2.14 NAME 'nisKeyObject' SUP top AUXILIARY MUST ( cn $ nisPublicKey $ nisSecretKey ) MAY (
  uidNumber $ description ) )
( 1.3.6.1.1.1.2.15 NAME 'nisDomainObject' SUP top AUXILIARY MUST nisDomain )
( 1.3.6.1.1.1.2.16 NAME 'automountMap' SUP top STRUCTURAL MUST automountMapName MAY description )
( 1.3.6.1.1.1.2.17 NAME 'automount' SUP top STRUCTURAL MUST ( automountKey $ automountInformation ) MAY
  description )
"""
