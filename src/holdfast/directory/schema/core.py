"""RFC 4519, with the few of RFC 2079, 2247 and 2985 that come along: people, organisations, groups."""

from typing import Final

ATTRIBUTES: Final = """
( 0.9.2342.19200300.100.1.1 NAME ( 'uid' 'userid' ) EQUALITY caseIgnoreMatch SUBSTR
  caseIgnoreSubstringsMatch SYNTAX DirectoryString{256} )
( 0.9.2342.19200300.100.1.25 NAME ( 'dc' 'domainComponent' ) EQUALITY caseIgnoreIA5Match SUBSTR
  caseIgnoreIA5SubstringsMatch SYNTAX IA5String SINGLE-VALUE )
( 1.2.840.113549.1.9.1 NAME ( 'email' 'emailAddress' 'pkcs9email' ) EQUALITY caseIgnoreIA5Match SUBSTR
  caseIgnoreIA5SubstringsMatch SYNTAX IA5String{128} )
( 1.3.6.1.4.1.250.1.57 NAME 'labeledURI' EQUALITY caseExactMatch SYNTAX DirectoryString )
( 2.5.4.2 NAME 'knowledgeInformation' EQUALITY caseIgnoreMatch SYNTAX DirectoryString{32768} )
( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )
( 2.5.4.4 NAME ( 'sn' 'surname' ) SUP name )
( 2.5.4.5 NAME 'serialNumber' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  PrintableString{64} )
( 2.5.4.6 NAME ( 'c' 'countryName' ) SUP name SYNTAX CountryString SINGLE-VALUE )
( 2.5.4.7 NAME ( 'l' 'localityName' ) SUP name )
( 2.5.4.8 NAME ( 'st' 'stateOrProvinceName' ) SUP name )
( 2.5.4.9 NAME ( 'street' 'streetAddress' ) EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString{128} )
( 2.5.4.10 NAME ( 'o' 'organizationName' ) SUP name )
( 2.5.4.11 NAME ( 'ou' 'organizationalUnitName' ) SUP name )
( 2.5.4.12 NAME 'title' SUP name )
( 2.5.4.13 NAME 'description' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{1024} )
( 2.5.4.14 NAME 'searchGuide' SYNTAX Guide )
( 2.5.4.15 NAME 'businessCategory' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{128} )
( 2.5.4.16 NAME 'postalAddress' EQUALITY caseIgnoreListMatch SUBSTR caseIgnoreListSubstringsMatch SYNTAX
  PostalAddress )
( 2.5.4.17 NAME 'postalCode' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{40} )
( 2.5.4.18 NAME 'postOfficeBox' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{40} )
( 2.5.4.19 NAME 'physicalDeliveryOfficeName' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString{128} )
( 2.5.4.20 NAME 'telephoneNumber' EQUALITY telephoneNumberMatch SUBSTR telephoneNumberSubstringsMatch
  SYNTAX TelephoneNumber{32} )
( 2.5.4.21 NAME 'telexNumber' SYNTAX TelexNumber )
( 2.5.4.22 NAME 'teletexTerminalIdentifier' SYNTAX TeletexTerminalIdentifier )
( 2.5.4.23 NAME ( 'facsimileTelephoneNumber' 'fax' ) SYNTAX FacsimileTelephoneNumber )
( 2.5.4.24 NAME 'x121Address' EQUALITY numericStringMatch SUBSTR numericStringSubstringsMatch SYNTAX
  NumericString{15} )
( 2.5.4.25 NAME 'internationaliSDNNumber' EQUALITY numericStringMatch SUBSTR numericStringSubstringsMatch
  SYNTAX NumericString{16} )
( 2.5.4.26 NAME 'registeredAddress' SUP postalAddress SYNTAX PostalAddress )
( 2.5.4.27 NAME 'destinationIndicator' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  PrintableString{128} )
( 2.5.4.28 NAME 'preferredDeliveryMethod' SYNTAX DeliveryMethod SINGLE-VALUE )
( 2.5.4.30 NAME 'supportedApplicationContext' EQUALITY objectIdentifierMatch SYNTAX OID )
( 2.5.4.31 NAME 'member' SUP distinguishedName )
( 2.5.4.32 NAME 'owner' SUP distinguishedName )
( 2.5.4.33 NAME 'roleOccupant' SUP distinguishedName )
( 2.5.4.34 NAME 'seeAlso' SUP distinguishedName )
( 2.5.4.35 NAME 'userPassword' EQUALITY octetStringMatch SYNTAX OctetString{128} )
( 2.5.4.36 NAME 'userCertificate' SYNTAX Certificate )
( 2.5.4.37 NAME 'cACertificate' SYNTAX Certificate )
( 2.5.4.38 NAME 'authorityRevocationList' SYNTAX CertificateList )
( 2.5.4.39 NAME 'certificateRevocationList' SYNTAX CertificateList )
( 2.5.4.40 NAME 'crossCertificatePair' SYNTAX CertificatePair )
( 2.5.4.41 NAME 'name' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{32768} )
( 2.5.4.42 NAME ( 'givenName' 'gn' ) SUP name )
( 2.5.4.43 NAME 'initials' SUP name )
( 2.5.4.44 NAME 'generationQualifier' SUP name )
( 2.5.4.45 NAME 'x500UniqueIdentifier' EQUALITY bitStringMatch SYNTAX BitString )
( 2.5.4.46 NAME 'dnQualifier' EQUALITY caseIgnoreMatch ORDERING caseIgnoreOrderingMatch SUBSTR
  caseIgnoreSubstringsMatch SYNTAX PrintableString )
( 2.5.4.47 NAME 'enhancedSearchGuide' SYNTAX EnhancedGuide )
( 2.5.4.49 NAME 'distinguishedName' EQUALITY distinguishedNameMatch SYNTAX DN )
( 2.5.4.50 NAME 'uniqueMember' EQUALITY uniqueMemberMatch SYNTAX NameAndOptionalUID )
( 2.5.4.51 NAME 'houseIdentifier' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX
  DirectoryString{32768} )
( 2.5.4.52 NAME 'supportedAlgorithms' SYNTAX SupportedAlgorithm )
( 2.5.4.53 NAME 'deltaRevocationList' SYNTAX CertificateList )
( 2.5.4.54 NAME 'dmdName' SUP name )
( 2.5.4.65 NAME 'pseudonym' SUP name )
"""

CLASSES: Final = """
( 1.3.6.1.1.3.1 NAME 'uidObject' SUP top AUXILIARY MUST uid )
( 1.3.6.1.4.1.250.3.15 NAME 'labeledURIObject' SUP top AUXILIARY MAY labeledURI )
( 1.3.6.1.4.1.1466.344 NAME 'dcObject' SUP top AUXILIARY MUST dc )
( 2.5.6.2 NAME 'country' SUP top STRUCTURAL MUST c MAY ( searchGuide $ description ) )
( 2.5.6.3 NAME 'locality' SUP top STRUCTURAL MAY ( street $ seeAlso $ searchGuide $ st $ l $ description )
  )
( 2.5.6.4 NAME 'organization' SUP top STRUCTURAL MUST o MAY ( userPassword $ searchGuide $ seeAlso $
  businessCategory $ x121Address $ registeredAddress $ destinationIndicator $ preferredDeliveryMethod $
  telexNumber $ teletexTerminalIdentifier $ telephoneNumber $ internationaliSDNNumber $
  facsimileTelephoneNumber $ street $ postOfficeBox $ postalCode $ postalAddress $
  physicalDeliveryOfficeName $ st $ l $ description ) )
( 2.5.6.5 NAME 'organizationalUnit' SUP top STRUCTURAL MUST ou MAY ( userPassword $ searchGuide $ seeAlso
  $ businessCategory $ x121Address $ registeredAddress $ destinationIndicator $ preferredDeliveryMethod $
  telexNumber $ teletexTerminalIdentifier $ telephoneNumber $ internationaliSDNNumber $
  facsimileTelephoneNumber $ street $ postOfficeBox $ postalCode $ postalAddress $
  physicalDeliveryOfficeName $ st $ l $ description ) )
( 2.5.6.6 NAME 'person' SUP top STRUCTURAL MUST ( sn $ cn ) MAY ( userPassword $ telephoneNumber $ seeAlso
  $ description ) )
( 2.5.6.7 NAME 'organizationalPerson' SUP person STRUCTURAL MAY ( title $ x121Address $ registeredAddress
  $ destinationIndicator $ preferredDeliveryMethod $ telexNumber $ teletexTerminalIdentifier $
  telephoneNumber $ internationaliSDNNumber $ facsimileTelephoneNumber $ street $ postOfficeBox $
  postalCode $ postalAddress $ physicalDeliveryOfficeName $ ou $ st $ l ) )
( 2.5.6.8 NAME 'organizationalRole' SUP top STRUCTURAL MUST cn MAY ( x121Address $ registeredAddress $
  destinationIndicator $ preferredDeliveryMethod $ telexNumber $ teletexTerminalIdentifier $
  telephoneNumber $ internationaliSDNNumber $ facsimileTelephoneNumber $ seeAlso $ roleOccupant $
  preferredDeliveryMethod $ street $ postOfficeBox $ postalCode $ postalAddress $
  physicalDeliveryOfficeName $ ou $ st $ l $ description ) )
( 2.5.6.9 NAME 'groupOfNames' SUP top STRUCTURAL MUST ( member $ cn ) MAY ( businessCategory $ seeAlso $
  owner $ ou $ o $ description ) )
( 2.5.6.10 NAME 'residentialPerson' SUP person STRUCTURAL MUST l MAY ( businessCategory $ x121Address $
  registeredAddress $ destinationIndicator $ preferredDeliveryMethod $ telexNumber $
  teletexTerminalIdentifier $ telephoneNumber $ internationaliSDNNumber $ facsimileTelephoneNumber $
  preferredDeliveryMethod $ street $ postOfficeBox $ postalCode $ postalAddress $
  physicalDeliveryOfficeName $ st $ l ) )
( 2.5.6.11 NAME 'applicationProcess' SUP top STRUCTURAL MUST cn MAY ( seeAlso $ ou $ l $ description ) )
( 2.5.6.14 NAME 'device' SUP top STRUCTURAL MUST cn MAY ( serialNumber $ seeAlso $ owner $ ou $ o $ l $
  description ) )
( 2.5.6.15 NAME 'strongAuthenticationUser' SUP top AUXILIARY MUST userCertificate )
( 2.5.6.16 NAME 'certificationAuthority' SUP top AUXILIARY MUST ( authorityRevocationList $
  certificateRevocationList $ cACertificate ) MAY crossCertificatePair )
( 2.5.6.16.2 NAME 'certificationAuthority-V2' SUP certificationAuthority AUXILIARY MAY deltaRevocationList
  )
( 2.5.6.17 NAME 'groupOfUniqueNames' SUP top STRUCTURAL MUST ( uniqueMember $ cn ) MAY ( businessCategory
  $ seeAlso $ owner $ ou $ o $ description ) )
( 2.5.6.18 NAME 'userSecurityInformation' SUP top AUXILIARY MAY supportedAlgorithms )
( 2.5.6.19 NAME 'cRLDistributionPoint' SUP top STRUCTURAL MUST cn MAY ( certificateRevocationList $
  authorityRevocationList $ deltaRevocationList ) )
( 2.5.6.20 NAME 'dmd' SUP top STRUCTURAL MUST dmdName MAY ( userPassword $ searchGuide $ seeAlso $
  businessCategory $ x121Address $ registeredAddress $ destinationIndicator $ preferredDeliveryMethod $
  telexNumber $ teletexTerminalIdentifier $ telephoneNumber $ internationaliSDNNumber $
  facsimileTelephoneNumber $ street $ postOfficeBox $ postalCode $ postalAddress $
  physicalDeliveryOfficeName $ st $ l $ description ) )
( 2.5.6.21 NAME 'pkiUser' SUP top AUXILIARY MAY userCertificate )
( 2.5.6.22 NAME 'pkiCA' SUP top AUXILIARY MAY ( authorityRevocationList $ certificateRevocationList $
  cACertificate $ crossCertificatePair ) )
( 2.5.6.23 NAME 'deltaCRL' SUP top AUXILIARY MAY deltaRevocationList )
"""
